// cpu/chunkwise of gated_delta_layer: cpu/direct of causal_conv1d, then cpu/chunkwise of
// gated_delta.
#include "gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cpu_causal_conv1d_direct();
const Implementation& cpu_gated_delta_chunkwise();

const Implementation& cpu_gated_delta_layer_chunkwise() {
  static const TwoPassLayer implementation(cpu_causal_conv1d_direct(), cpu_gated_delta_chunkwise());
  return implementation;
}

}  // namespace gdn
