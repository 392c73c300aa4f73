// The two registered forms of the Hopper kernel: cuda/fused_sm90 and cuda/fused_sm90_invariant.
#pragma once

#include "interface/implementation.h"

namespace gdn::cuda {

/// invariant: sequences are never split, so a sequence has the same bits alone and in any batch.
const Implementation& fused_sm90_implementation(bool invariant);

}  // namespace gdn::cuda
