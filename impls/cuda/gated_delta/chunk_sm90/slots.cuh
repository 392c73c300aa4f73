// Where a slot of the workspace lies, found on the device from the lengths of this run.
#pragma once

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

struct SlotPlace {
  int sequence;   // the last one whose first slot is <= the slot
  int64_t begin;  // its first token
  int64_t end;
};
/// first_slot(offset, n): of sequence n, increasing in n. The whole warp searches, the last 31
/// candidates in one load.
template <typename FirstSlot>
__device__ __forceinline__ SlotPlace place_of_slot(const GatedDeltaParams& p, int64_t slot,
                                                   int lane, FirstSlot first_slot) {
  int low = 0, high = p.num_sequences;  // the answer is in [low, high)
  while (high - low > 31) {
    const int step = (high - low + 31) / 32, n = low + (lane + 1) * step;
    const bool at_or_before = n < high && first_slot(__ldg(p.sequence_offsets.word(n)), n) <= slot;
    const int passed = __popc(__ballot_sync(~0u, at_or_before));
    low += passed * step;
    high = min(high, low + step);
  }
  const int n = min(low + lane, p.num_sequences);
  const int64_t offset = __ldg(p.sequence_offsets.word(n));
  const bool at_or_before = low + lane < high && first_slot(offset, n) <= slot;
  const int last = __popc(__ballot_sync(~0u, at_or_before)) - 1;
  return {low + last, __shfl_sync(~0u, offset, last), __shfl_sync(~0u, offset, last + 1)};
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
