// cpu/chunkwise of gated_delta_layer: the two-pass layer around cpu/chunkwise of gated_delta.
#include "cpu/gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cpu_gated_delta_chunkwise();

const Implementation& cpu_gated_delta_layer_chunkwise() {
  static const cpu::TwoPassLayer implementation(cpu_gated_delta_chunkwise());
  return implementation;
}

}  // namespace gdn
