// hip/naive of gated_delta_layer: two passes (two_pass.h).
#include "hip/gated_delta_layer/two_pass.h"

namespace gdn {

const Implementation& hip_gated_delta_naive();

const Implementation& hip_gated_delta_layer_naive() {
  static const hip::TwoPassLayer implementation(hip_gated_delta_naive());
  return implementation;
}

}  // namespace gdn
