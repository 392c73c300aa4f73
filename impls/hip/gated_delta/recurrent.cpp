// hip/recurrent: see recurrent.hip.
#include "hip/gated_delta/recurrent_plan.h"

namespace gdn::hip {

const Implementation& gated_delta_recurrent() {
  static const Recurrent implementation(
      "hip/recurrent", Recurrent::columns_version(),
      "32 state columns per wave, 8 lanes sharing their rows; bound by VALU issue, in decode by "
      "memory traffic",
      22);
  return implementation;
}

}  // namespace gdn::hip
