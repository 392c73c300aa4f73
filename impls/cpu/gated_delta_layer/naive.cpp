// cpu/naive of gated_delta_layer: the two-pass layer around cpu/naive of gated_delta.
#include "cpu/gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cpu_gated_delta_naive();

const Implementation& cpu_gated_delta_layer_naive() {
  static const cpu::TwoPassLayer implementation(cpu_gated_delta_naive());
  return implementation;
}

}  // namespace gdn
