// cuda/recurrent of gated_delta_layer: cuda/direct of causal_conv1d, then cuda/recurrent of
// gated_delta.
#include "cuda/target.h"
#include "gated_delta_layer/two_pass.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& causal_conv1d_direct();
const Implementation& gated_delta_recurrent();

const Implementation& gated_delta_layer_recurrent() {
  static const TwoPassLayer implementation(causal_conv1d_direct(), gated_delta_recurrent());
  return implementation;
}

}  // namespace gdn::GDN_CUDA_TARGET
