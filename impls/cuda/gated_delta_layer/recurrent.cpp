// cuda/recurrent of gated_delta_layer: the two-pass layer around cuda/recurrent of gated_delta.
#include "cuda/gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cuda_gated_delta_recurrent();

const Implementation& cuda_gated_delta_layer_recurrent() {
  static const cuda::TwoPassLayer implementation(cuda_gated_delta_recurrent());
  return implementation;
}

}  // namespace gdn
