// hip/recurrent: see recurrent.hip.
#include "hip/gated_delta/recurrent_plan.h"

namespace gdn {

const Implementation& hip_gated_delta_recurrent() {
  static const hip::Recurrent implementation(
      "hip/recurrent", hip::Recurrent::columns_version(),
      "32 state columns per wave, 8 lanes sharing their rows; bound by VALU issue, in decode by "
      "memory traffic",
      22);
  return implementation;
}

}  // namespace gdn
