// hip/recurrent_dpp: see recurrent.hip.
#include "hip/gated_delta/recurrent_plan.h"

namespace gdn::hip {

const Implementation& gated_delta_recurrent_dpp() {
  static const Recurrent implementation(
      "hip/recurrent_dpp", Recurrent::dpp_version(),
      "one state column per wave, sums by DPP inside the VALU; bound by the latency of a sum", 21);
  return implementation;
}

}  // namespace gdn::hip
