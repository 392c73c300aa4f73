// Work items of channel_sm90: the value heads of the sequences. Block b takes the items b,
// b + blocks, b + 2 blocks, .. of the sequences in order of their length, longest first. Every role
// of a block finds them by itself, from the offsets, so that none has to hand them on.
//
// Or the value heads of pieces, where long sequences are cut into pieces of equally many chunks, in
// the order of their tokens. A piece needs the state at its start. For any gates and exactly that is
// S_p = S_(p-1) M_(p-1) + Z_(p-1), with Z the state that a piece leaves where it starts from zeros,
// and M its transition, which is what it leaves of the identity where V = 0. Three launches:
// Work::transitions makes the Z and M of all pieces side by side, a work item each (of the first
// piece, which starts from the initial state, the state after it; of the last nothing), chain.cu
// the states at their starts, and Work::pieces all outputs and final states. The first of them
// saves the initial state, too: the last piece may have stored the final one in its place before
// the first piece starts.
//
// Where gates forget, a piece begins a few chunks early from zeros instead (forgetting.cuh), and needs no
// state: then nothing is made of the piece before it. Where it is followed by one that does need a state,
// its Z begins early too, and is that state: M is made of pieces alone that need a state and are followed
// by one that does.
//
// With checkpoints sequences are whole, and a work item is done in parts, from checkpoint to checkpoint, by the
// block that has it: each part begins a chunk, and the state stays in registers.
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
  // ---- of sequences in pieces
  int slot;            ///< of the piece
  int first_slot;      ///< of its sequence's first piece
  bool is_whole;       ///< the piece is the sequence
  bool is_first;       ///< it starts from the initial state, at the sequence's begin
  bool is_last;        ///< it ends in the final state
  bool is_transition;  ///< Work::transitions: M is made, not Z
  bool is_wanted;      ///< Work::transitions: Z or M is asked for
  bool is_from_zeros;  ///< it begins early, and not where its sequence does
  int early_chunks;    ///< its first ones, whose outputs are those of the piece before
  // ---- of sequences with checkpoints
  int checkpoint;  ///< of the sequence, at which it ends; -1: none
  __device__ __forceinline__ int key_head(const GatedDeltaParams& p) const {
    return head / p.value_heads_per_key_head;
  }
};

/// Whether work items are value heads of whole sequences.
constexpr bool takes_sequences(Work work) {
  return work == Work::sequences || work == Work::checkpoints;
}

/// Every thread of the block, before any looks for items of whole sequences. Ties keep their order;
/// a thread's sequence has as rank the number of those before it. Ends with a barrier.
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

/// The same for pieces: numbers those of a.p.num_sequences sequences, at most kMostOrderedSequences,
/// and what Work::transitions makes of them.
__device__ __forceinline__ void number_pieces(uint32_t sm, const ChannelParams& a) {
  const int n = static_cast<int>(threadIdx.x), sequences = a.p.num_sequences;
  const uint32_t counts = sm + Layout::kDecay;  // not yet in use otherwise
  int pieces = 0, items = 0;
  if (n < sequences) {
    const auto length = static_cast<int>(a.p.sequence_offsets[n + 1] - a.p.sequence_offsets[n]);
    pieces = pieces_of(length, a.chunks_per_piece);
    if (!a.p.slot_index || a.p.slot_index[n] >= 0) items = transition_items(pieces);
    store_shared(counts + 4 * n, static_cast<uint32_t>(pieces | items << 16));
  }
  __syncthreads();
  if (n < sequences) {
    int first_piece = 0, first_item = 0;
    for (int m = 0; m < n; m++) {
      const uint32_t other = load_shared<uint32_t>(counts + 4 * m);
      first_piece += static_cast<int>(other & 0xffff);
      first_item += static_cast<int>(other >> 16);
    }
    store_shared(sm + Layout::kFirstPiece + 2 * n, static_cast<uint16_t>(first_piece));
    store_shared(sm + Layout::kFirstItem + 2 * n, static_cast<uint16_t>(first_item));
    if (n + 1 == sequences) {
      store_shared(sm + Layout::kFirstPiece + 2 * n + 2,
                   static_cast<uint16_t>(first_piece + pieces));
      store_shared(sm + Layout::kFirstItem + 2 * n + 2, static_cast<uint16_t>(first_item + items));
    }
  }
  __syncthreads();
}

/// Work items of the launch.
template <Work kWork>
__device__ __forceinline__ unsigned items_of(uint32_t sm, const ChannelParams& a) {
  if constexpr (takes_sequences(kWork)) {
    return static_cast<unsigned>(a.items);
  } else {
    const uint32_t firsts =
        sm + (kWork == Work::transitions ? Layout::kFirstItem : Layout::kFirstPiece);
    return load_shared<uint16_t>(firsts + 2 * a.p.num_sequences) *
           static_cast<unsigned>(a.p.num_value_heads);
  }
}

/// item_of for pieces, as if none began early.
template <Work kWork>
__device__ __forceinline__ WorkItem piece_of(uint32_t sm, const ChannelParams& a, unsigned number) {
  const auto heads = static_cast<unsigned>(a.p.num_value_heads);
  const auto of_all = static_cast<int>(number / heads);
  const uint32_t firsts =
      sm + (kWork == Work::transitions ? Layout::kFirstItem : Layout::kFirstPiece);
  int sequence = 0;  // the last one whose first number is not greater
  for (int end = a.p.num_sequences; end - sequence > 1;) {
    const int middle = (sequence + end) / 2;
    if (load_shared<uint16_t>(firsts + 2 * middle) <= of_all) {
      sequence = middle;
    } else {
      end = middle;
    }
  }
  const int own = of_all - load_shared<uint16_t>(firsts + 2 * sequence);
  const int first_slot = load_shared<uint16_t>(sm + Layout::kFirstPiece + 2 * sequence),
            pieces =
                load_shared<uint16_t>(sm + Layout::kFirstPiece + 2 * sequence + 2) - first_slot;
  const int piece = kWork == Work::transitions ? (own + 1) / 2 : own,
            begin = piece * a.chunks_per_piece * kChunk;
  WorkItem item{};
  item.token0 = static_cast<int>(a.p.sequence_offsets[sequence]) + begin;
  item.length = min(static_cast<int>(a.p.sequence_offsets[sequence + 1]) - item.token0,
                    a.chunks_per_piece * kChunk);
  item.head = static_cast<int>(number % heads);
  item.sequence = sequence;
  item.pool_row = a.p.slot_index ? static_cast<int>(a.p.slot_index[sequence]) : sequence;
  item.chunks = item.pool_row < 0 ? 0 : (item.length + kChunk - 1) / kChunk;
  item.slot = first_slot + piece;
  item.first_slot = first_slot;
  item.is_whole = pieces == 1;
  item.is_first = piece == 0;
  item.is_last = piece == pieces - 1;
  item.is_transition = kWork == Work::transitions && own > 0 && own % 2 == 0;
  return item;
}

/// item_of for pieces, once it is known how early they begin.
template <Work kWork>
__device__ __forceinline__ WorkItem piece_item_of(uint32_t sm, const ChannelParams& a,
                                                  unsigned number) {
  WorkItem item = piece_of<kWork>(sm, a, number);
  if (item.chunks == 0 || item.is_whole) return item;
  const int piece = item.slot - item.first_slot;
  const int32_t* const early_chunks =
      a.early_chunks + int64_t{item.slot} * a.p.num_value_heads + item.head;
  const int early = piece == 0 ? 0 : early_chunks[0];
  if (kWork == Work::transitions) {
    item.is_wanted = early_chunks[a.p.num_value_heads] < 0 && !(item.is_transition && early >= 0);
    if (!item.is_wanted) {
      item.chunks = 0;
      return item;
    }
  }
  if (early <= 0) return item;
  item.early_chunks = early;
  item.token0 -= early * kChunk;
  item.length += early * kChunk;
  item.chunks += early;
  item.is_first = early == piece * a.chunks_per_piece;
  item.is_from_zeros = !item.is_first;
  return item;
}

/// Whole warps, or one thread. `number`: less than items_of().
template <Work kWork>
__device__ __forceinline__ WorkItem item_of(uint32_t sm, const ChannelParams& a, unsigned number) {
  if constexpr (takes_sequences(kWork)) {
    const auto heads = static_cast<unsigned>(a.p.num_value_heads);
    int sequence = static_cast<int>(number / heads);
    if (a.p.num_sequences <= kMostOrderedSequences)
      sequence = load_shared<uint16_t>(sm + Layout::kOrder + 2 * sequence);
    WorkItem item{};
    item.token0 = static_cast<int>(a.p.sequence_offsets[sequence]);
    item.length = static_cast<int>(a.p.sequence_offsets[sequence + 1]) - item.token0;
    item.head = static_cast<int>(number % heads);
    item.sequence = sequence;
    item.pool_row = a.p.slot_index ? static_cast<int>(a.p.slot_index[sequence]) : sequence;
    item.chunks = item.pool_row < 0 ? 0 : (item.length + kChunk - 1) / kChunk;
    item.is_whole = item.is_first = item.is_last = true;
    item.checkpoint = -1;
    return item;
  } else {
    return piece_item_of<kWork>(sm, a, number);
  }
}

/// What a work item is done as, one part after the other: all of it.
template <Work kWork>
struct Parts {
  __device__ __forceinline__ Parts(const ChannelParams&, WorkItem&) {}
  __device__ __forceinline__ bool next(const ChannelParams&, WorkItem&) { return false; }
};
/// With checkpoints, the tokens up to each of them and those behind the last, which begin a chunk each. Offsets are read
/// anew for each part, rather than held in registers.
template <>
struct Parts<Work::checkpoints> {
  /// Makes of the item its first part. Of a padding sequence there is but one.
  __device__ __forceinline__ Parts(const ChannelParams& a, WorkItem& item) {
    if (item.chunks > 0) take_from(a, item, item.token0);
  }
  /// Makes of a part the next one, if there is one.
  __device__ __forceinline__ bool next(const ChannelParams& a, WorkItem& item) {
    const int token0 = item.token0 + item.length;
    if (item.chunks == 0 || token0 == end_of(a, item)) return false;
    take_from(a, item, token0);
    return true;
  }

 private:
  static __device__ __forceinline__ int end_of(const ChannelParams& a, const WorkItem& item) {
    return static_cast<int>(a.p.sequence_offsets[item.sequence + 1]);
  }
  __device__ __forceinline__ void take_from(const ChannelParams& a, WorkItem& item, int token0) {
    const int count = a.p.checkpoints.count, first = item.sequence * count;
    int end = end_of(a, item), checkpoint = item.checkpoint + 1;
    item.checkpoint = -1;
    for (; checkpoint < count && item.checkpoint < 0; checkpoint++) {
      const auto tokens = static_cast<int>(a.p.checkpoints.tokens[first + checkpoint]);
      if (tokens == 0) continue;
      end = static_cast<int>(a.p.sequence_offsets[item.sequence]) + tokens;
      item.checkpoint = checkpoint;
    }
    item.token0 = token0;
    item.length = end - token0;
    item.chunks = (item.length + kChunk - 1) / kChunk;
  }
};

/// Goes through the chunks of a block's work items.
template <Work kWork>
struct ChunkCursor {
  unsigned number;  ///< of the work item
  unsigned items;   ///< of the launch
  WorkItem item;
  int chunk;  ///< of the work item's

  __device__ __forceinline__ ChunkCursor(uint32_t sm, const ChannelParams& a)
      : number(blockIdx.x), items(items_of<kWork>(sm, a)), item{}, chunk(0), parts_(a, item) {
    if (!at_end()) {
      take(sm, a);
      skip_empty(sm, a);
    }
  }
  __device__ __forceinline__ bool at_end() const { return number >= items; }
  __device__ __forceinline__ void advance(uint32_t sm, const ChannelParams& a) {
    chunk++;
    skip_empty(sm, a);
  }
  __device__ __forceinline__ int token() const { return item.token0 + chunk * kChunk; }
  /// Tokens of the chunk that are the sequence's.
  __device__ __forceinline__ int valid() const { return min(item.length - chunk * kChunk, kChunk); }

 private:
  __device__ __forceinline__ void take(uint32_t sm, const ChannelParams& a) {
    item = item_of<kWork>(sm, a, number);
    parts_ = Parts<kWork>(a, item);
  }
  __device__ __forceinline__ void skip_empty(uint32_t sm, const ChannelParams& a) {
    while (chunk == item.chunks) {
      chunk = 0;
      if (parts_.next(a, item)) continue;
      number += gridDim.x;
      if (at_end()) return;
      take(sm, a);
    }
  }
  Parts<kWork> parts_;
};

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
