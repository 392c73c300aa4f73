// cuda/recurrent_staged of gated_delta_layer: the two-pass layer around cuda/recurrent_staged of
// gated_delta.
#include "cuda/gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cuda_gated_delta_recurrent_staged();

const Implementation& cuda_gated_delta_layer_recurrent_staged() {
  static const cuda::TwoPassLayer implementation(cuda_gated_delta_recurrent_staged());
  return implementation;
}

}  // namespace gdn
