// cpu/recurrent of gated_delta_layer: cpu/direct of causal_conv1d, then cpu/recurrent of
// gated_delta.
#include "gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cpu_causal_conv1d_direct();
const Implementation& cpu_gated_delta_recurrent();

const Implementation& cpu_gated_delta_layer_recurrent() {
  static const TwoPassLayer implementation(cpu_causal_conv1d_direct(), cpu_gated_delta_recurrent());
  return implementation;
}

}  // namespace gdn
