// cpu/recurrent of gated_delta_layer: the two-pass layer around cpu/recurrent of gated_delta.
#include "cpu/gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cpu_gated_delta_recurrent();

const Implementation& cpu_gated_delta_layer_recurrent() {
  static const cpu::TwoPassLayer implementation(cpu_gated_delta_recurrent());
  return implementation;
}

}  // namespace gdn
