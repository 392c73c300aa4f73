// cuda/naive of gated_delta_layer: cuda/direct of causal_conv1d, then cuda/naive of gated_delta.
#include "gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cuda_causal_conv1d_direct();
const Implementation& cuda_gated_delta_naive();

const Implementation& cuda_gated_delta_layer_naive() {
  static const TwoPassLayer implementation(cuda_causal_conv1d_direct(), cuda_gated_delta_naive());
  return implementation;
}

}  // namespace gdn
