// cuda/channel_sm90_invariant: cuda/channel_sm90 without cutting sequences, so that a sequence has
// the same bits alone and in any batch.
#include "cuda/gated_delta/channel_sm90/channel_sm90.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

const Implementation& gated_delta_channel_sm90_invariant() { return channel_sm90::invariant(); }

}  // namespace gdn::GDN_CUDA_TARGET
