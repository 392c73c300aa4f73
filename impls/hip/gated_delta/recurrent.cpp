// hip/recurrent: see recurrent.hip.
#include "hip/gated_delta/recurrent_plan.h"

namespace gdn {

const Implementation& hip_gated_delta_recurrent() {
  static const hip::Recurrent implementation(
      "hip/recurrent", "columns", 4,
      "four state columns per wave, sums by DPP; bound by the latency of a token's chain");
  return implementation;
}

}  // namespace gdn
