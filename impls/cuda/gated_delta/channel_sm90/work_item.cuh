// Work items of channel_sm90: the value heads of the sequences. Block b takes the items b,
// b + blocks, b + 2 blocks, .. of the sequences in order of their length, longest first. Every role
// of a block finds them by itself, from the offsets, so that none has to hand them on.
#pragma once

#include "cuda/gated_delta/channel_sm90/layout.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

struct WorkItem {
  int token0;  ///< first token
  int length;  ///< tokens
  int chunks;  ///< 0 of a padding sequence, whose tokens are only given zeros
  int head;    ///< value head
  int sequence;
  int pool_row;  ///< that is read; negative: padding
  __device__ __forceinline__ int key_head(const GatedDeltaParams& p) const {
    return head / p.value_heads_per_key_head;
  }
};

/// Every thread of the block, before any looks for items. Ties keep their order; a thread's
/// sequence has as rank the number of those before it. Ends with a barrier.
__device__ __forceinline__ void order_sequences(uint32_t sm, const ChannelParams& a) {
  static_assert(kMostOrderedSequences <= Layout::kThreads &&
                4 * kMostOrderedSequences <= Layout::kSlots * Layout::kDecayBytes);
  const int n = static_cast<int>(threadIdx.x), sequences = a.p.num_sequences;
  const uint32_t lengths = sm + Layout::kDecay;  // not yet in use otherwise
  const bool ranked = sequences <= kMostOrderedSequences && n < sequences;
  int length = 0;
  if (ranked) {
    length = static_cast<int>(a.p.sequence_offsets[n + 1] - a.p.sequence_offsets[n]);
    store_shared(lengths + 4 * n, length);
  }
  __syncthreads();
  if (ranked) {
    int rank = 0;
    for (int m = 0; m < sequences; m++) {
      const int other = load_shared<int>(lengths + 4 * m);
      rank += other > length || (other == length && m < n);
    }
    store_shared(sm + Layout::kOrder + 2 * rank, static_cast<uint16_t>(n));
  }
  __syncthreads();
}

/// Whole warps, or one thread. `number`: less than a.items.
__device__ __forceinline__ WorkItem item_of(uint32_t sm, const ChannelParams& a, unsigned number) {
  const auto heads = static_cast<unsigned>(a.p.num_value_heads);
  int sequence = static_cast<int>(number / heads);
  if (a.p.num_sequences <= kMostOrderedSequences)
    sequence = load_shared<uint16_t>(sm + Layout::kOrder + 2 * sequence);
  WorkItem item;
  item.token0 = static_cast<int>(a.p.sequence_offsets[sequence]);
  item.length = static_cast<int>(a.p.sequence_offsets[sequence + 1]) - item.token0;
  item.head = static_cast<int>(number % heads);
  item.sequence = sequence;
  item.pool_row = a.p.slot_index ? static_cast<int>(a.p.slot_index[sequence]) : sequence;
  item.chunks = item.pool_row < 0 ? 0 : (item.length + kChunk - 1) / kChunk;
  return item;
}

/// Goes through the chunks of a block's work items.
struct ChunkCursor {
  unsigned number;  ///< of the work item
  WorkItem item;
  int chunk;  ///< of the work item's

  __device__ __forceinline__ ChunkCursor(uint32_t sm, const ChannelParams& a)
      : number(blockIdx.x), item{}, chunk(0) {
    if (!at_end(a)) {
      item = item_of(sm, a, number);
      skip_empty(sm, a);
    }
  }
  __device__ __forceinline__ bool at_end(const ChannelParams& a) const {
    return number >= static_cast<unsigned>(a.items);
  }
  __device__ __forceinline__ void advance(uint32_t sm, const ChannelParams& a) {
    chunk++;
    skip_empty(sm, a);
  }
  __device__ __forceinline__ int token() const { return item.token0 + chunk * kChunk; }
  /// Tokens of the chunk that are the sequence's.
  __device__ __forceinline__ int valid() const { return min(item.length - chunk * kChunk, kChunk); }

 private:
  __device__ __forceinline__ void skip_empty(uint32_t sm, const ChannelParams& a) {
    while (chunk == item.chunks) {
      number += gridDim.x;
      chunk = 0;
      if (at_end(a)) return;
      item = item_of(sm, a, number);
    }
  }
};

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
