// hip/chunkwise of gated_delta_layer: hip/direct of causal_conv1d, then hip/chunkwise of
// gated_delta.
#include "gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& hip_causal_conv1d_direct();
const Implementation& hip_gated_delta_chunkwise();

const Implementation& hip_gated_delta_layer_chunkwise() {
  static const TwoPassLayer implementation(hip_causal_conv1d_direct(), hip_gated_delta_chunkwise());
  return implementation;
}

}  // namespace gdn
