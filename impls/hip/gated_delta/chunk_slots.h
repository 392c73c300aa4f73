// Where the chunks of all sequences lie in arrays that have C tokens for each (ChunkwiseParams says
// why). Included by .hip files only.
#pragma once

#include "hip/gated_delta/device.h"

namespace gdn::hip {

template <int C>
__device__ __forceinline__ std::int64_t first_slot(const GatedDeltaParams& p, int sequence) {
  constexpr int kShift = C == 16 ? 4 : 5;
  return (p.sequence_offsets[sequence] >> kShift) + sequence;
}
__device__ __forceinline__ std::int64_t slot_head(const GatedDeltaParams& p, std::int64_t slot,
                                                  int head) {
  return slot * p.num_value_heads + head;
}

/// Where a slot's chunk lies; count = 0 for a slot without one.
struct SlotChunk {
  int sequence;
  int count;           ///< tokens
  std::int64_t token;  ///< first
};
template <int C>
__device__ __forceinline__ SlotChunk chunk_of_slot(const GatedDeltaParams& p, std::int64_t slot) {
  int low = 0, high = p.num_sequences - 1;  // the last sequence whose first slot is not beyond
  while (low < high) {
    const int middle = (low + high + 1) >> 1;
    if (first_slot<C>(p, middle) <= slot) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const std::int64_t start = (slot - first_slot<C>(p, low)) * C;
  const std::int64_t first = p.sequence_offsets[low];
  const std::int64_t left = p.sequence_offsets[low + 1] - first - start;
  return {low, left <= 0 ? 0 : left < C ? static_cast<int>(left) : C, first + start};
}

}  // namespace gdn::hip
