// cuda/fused of gated_delta_layer: cuda/direct of causal_conv1d into the token dtype, then
// cuda/fused of gated_delta, whose tensor cores take that.
#include "cuda/target.h"
#include "gated_delta_layer/two_pass.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_fused();

const Implementation& gated_delta_layer_fused() {
  static const TwoPassLayer implementation(causal_conv1d_direct(), gated_delta_fused(),
                                           Between::token_dtype);
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
