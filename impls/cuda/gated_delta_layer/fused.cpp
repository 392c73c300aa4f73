// cuda/fused of gated_delta_layer: cuda/direct of causal_conv1d into the token dtype, then
// cuda/fused of gated_delta, whose tensor cores take that.
#include "gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cuda_causal_conv1d_direct();
const Implementation& cuda_gated_delta_fused();

const Implementation& cuda_gated_delta_layer_fused() {
  static const TwoPassLayer implementation(cuda_causal_conv1d_direct(), cuda_gated_delta_fused(),
                                           Between::token_dtype);
  return implementation;
}

}  // namespace gdn
