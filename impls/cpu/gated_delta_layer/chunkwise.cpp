// cpu/chunkwise of gated_delta_layer: cpu/direct of causal_conv1d, then cpu/chunkwise of
// gated_delta.
#include "gated_delta_layer/two_pass.h"

namespace gdn::cpu {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_chunkwise();

const Implementation& gated_delta_layer_chunkwise() {
  static const TwoPassLayer implementation(causal_conv1d_direct(), gated_delta_chunkwise());
  return implementation;
}

}  // namespace gdn::cpu
