// cpu/naive of gated_delta_layer: cpu/direct of causal_conv1d, then cpu/naive of gated_delta.
#include "gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cpu_causal_conv1d_direct();
const Implementation& cpu_gated_delta_naive();

const Implementation& cpu_gated_delta_layer_naive() {
  static const TwoPassLayer implementation(cpu_causal_conv1d_direct(), cpu_gated_delta_naive());
  return implementation;
}

}  // namespace gdn
