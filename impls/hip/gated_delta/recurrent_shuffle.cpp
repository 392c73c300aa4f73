// hip/recurrent_shuffle: see recurrent.hip.
#include "hip/gated_delta/recurrent_plan.h"

namespace gdn::hip {

const Implementation& gated_delta_recurrent_shuffle() {
  static const Recurrent implementation("hip/recurrent_shuffle", Recurrent::shuffle_version(),
                                        "one state column per wave, sums by shuffles through "
                                        "the LDS crossbar; bound by their latency",
                                        20);
  return implementation;
}

}  // namespace gdn::hip
