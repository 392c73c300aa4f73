// cpu/naive of gated_delta_layer: cpu/direct of causal_conv1d, then cpu/naive of gated_delta.
#include "gated_delta_layer/two_pass.h"

namespace gdn::cpu {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_naive();

const Implementation& gated_delta_layer_naive() {
  static const TwoPassLayer implementation(causal_conv1d_direct(), gated_delta_naive());
  return implementation;
}

}  // namespace gdn::cpu
