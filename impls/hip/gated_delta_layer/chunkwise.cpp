// hip/chunkwise of gated_delta_layer: hip/direct of causal_conv1d, then hip/chunkwise of
// gated_delta.
#include "gated_delta_layer/two_pass.h"

namespace gdn::hip {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_chunkwise();

const Implementation& gated_delta_layer_chunkwise() {
  static const TwoPassLayer implementation(causal_conv1d_direct(), gated_delta_chunkwise());
  return implementation;
}

}  // namespace gdn::hip
