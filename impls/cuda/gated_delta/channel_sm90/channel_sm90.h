// The forms of cuda/channel_sm90.
#pragma once

#include <memory>

#include "cuda/target.h"
#include "interface/implementation.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

/// cuda/channel_sm90: long sequences in pieces where the planner expects that to take less time.
const Implementation& planned();
/// cuda/channel_sm90_invariant: sequences whole, always.
const Implementation& invariant();
/// Not registered: always pieces of so many chunks, whatever that takes. The kernels' tests choose
/// where sequences are cut.
std::unique_ptr<Implementation> in_pieces(int chunks);

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
