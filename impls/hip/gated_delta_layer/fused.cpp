// hip/fused of gated_delta_layer: hip/direct of causal_conv1d, then hip/fused of gated_delta.
#include "gated_delta_layer/two_pass.h"

namespace gdn::hip {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_fused();

const Implementation& gated_delta_layer_fused() {
  static const TwoPassLayer implementation(causal_conv1d_direct(), gated_delta_fused());
  return implementation;
}

}  // namespace gdn::hip
