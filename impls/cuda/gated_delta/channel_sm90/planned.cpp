// cuda/channel_sm90: gated_delta forward with one decay per key channel, for Hopper (sm_90a), in the
// form that the planner expects to take the least time.
#include "cuda/gated_delta/channel_sm90/channel_sm90.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& gated_delta_channel_sm90_planned() { return channel_sm90::planned(); }

}  // namespace gdn::GDN_CUDA_TARGET
