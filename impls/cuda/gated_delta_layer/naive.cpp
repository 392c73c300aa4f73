// cuda/naive of gated_delta_layer: the two-pass layer around cuda/naive of gated_delta.
#include "cuda/gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& cuda_gated_delta_naive();

const Implementation& cuda_gated_delta_layer_naive() {
  static const cuda::TwoPassLayer implementation(cuda_gated_delta_naive());
  return implementation;
}

}  // namespace gdn
