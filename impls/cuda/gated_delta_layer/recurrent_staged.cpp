// cuda/recurrent_staged of gated_delta_layer: cuda/direct of causal_conv1d, then
// cuda/recurrent_staged of gated_delta.
#include "gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cuda_causal_conv1d_direct();
const Implementation& cuda_gated_delta_recurrent_staged();

const Implementation& cuda_gated_delta_layer_recurrent_staged() {
  static const TwoPassLayer implementation(cuda_causal_conv1d_direct(),
                                           cuda_gated_delta_recurrent_staged());
  return implementation;
}

}  // namespace gdn
