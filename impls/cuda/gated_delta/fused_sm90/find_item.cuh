// Work items of the chain and pieces kernels: how one warp makes them from a counter and from the
// lengths on the device. Code that a block runs once is kept short here: it comes from memory.
//
// Pieces. Where there are fewer sequences and heads than multiprocessors, sequences are split into
// pieces of equally many chunks. The chain begins a near piece early enough to forget what was
// before it (forgetting.cuh). Where any piece is far, the pieces kernel computes for every piece
// but a sequence's last the state L that it makes of zeros (of the initial state, for the first),
// and its M, so that S_out = M S_in + L; the chain then starts all but the nearest pieces from
// their predecessors' L and M. That is exact but for rounding. Where M is negligible, only as many
// of the piece's last chunks are run as it takes to forget.
//
// What is best for near pieces seldom is for others. So the chain may be launched twice, for pieces
// of two lengths (or none) and by halves of V or not: the pieces kernel, which looks at the gates,
// decides which of the two leaves at once. For far pieces the multiprocessors that the pieces
// kernel leaves free may run the chain of every sequence's first piece meanwhile: those items come
// first and wait for nothing of that kernel, and the others wait for the state that they hand on.
#pragma once

#include <type_traits>

#include "cuda/gated_delta/chunk_sm90/slots.cuh"
#include "cuda/gated_delta/fused_sm90/chain_layout.cuh"
#include "cuda/gated_delta/fused_sm90/forgetting.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// What a work item of the pieces kernel makes.
enum PiecePart : int { piece_state, piece_transition, piece_parts };

/// A work item, and what of it only the kernels before this one can tell.
struct FoundItem {
  WorkItem item;
  int piece;  // of its sequence; with pieces
  int part;   // pieces kernel: a PiecePart; chain: which half of V
  int64_t sequence_length;
};

/// Whole warps: the next work item, in all that lengths tell; length -1 when there is none.
/// `number`: of the last item taken, -1 before the first, which is the block's own number unless
/// items go by arrival; later ones come from a counter. Whole sequences longest first, pieces as
/// they lie, first pieces before all others where they run beside the pieces kernel.
///
/// Waits for the kernels before this one where it needs them: not for a block's first piece, by its
/// number, nor in the chain for far gates where first pieces run beside the pieces kernel. There,
/// early items take numbers from a counter and read records and saved states, all of them prepare's
/// work, without waiting. What PTX promises of griddepcontrol is this. launch_dependents: the next
/// grid can be scheduled once every block of this one has executed it or has ended; nothing is said
/// of memory. wait: it returns once the grids before have completed and their memory operations are
/// performed and visible to this grid. The pieces kernel, where two chains follow it, executes
/// launch_dependents only after its wait, and the chain for near gates, which passes the start on,
/// cannot have begun before that. So no block of the chain for far gates exists before prepare has
/// completed and its writes are performed. Not promised is that they are visible to a grid that has
/// not waited itself: early items rely on performed writes being in the L2 cache, from where
/// atomics and bulk copies read, and on no other value of a saved state being in this
/// multiprocessor's L1, since its block is the first of this grid to read it. What the pieces
/// kernel writes is read behind a wait, its decision as a flag of its own.
template <int Halves, typename Params>
__device__ __forceinline__ FoundItem find_item(const Params& a, int& number, int lane) {
  constexpr bool kPieces = std::is_same_v<Params, PiecesParams>;
  constexpr int kParts = kPieces ? static_cast<int>(piece_parts) : Halves;
  const bool whole = !kPieces && a.chunks_per_piece == 0;
#pragma unroll 1
  for (;;) {
    FoundItem found{};
    WorkItem& item = found.item;
    item.length = -1;
    const bool by_arrival = !kPieces && a.items_by_arrival,
               firsts_first = !kPieces && a.first_pieces_beside;
    if (number < 0 && !by_arrival) {
      number = static_cast<int>(blockIdx.x);
    } else {
      if (!firsts_first) wait_for_prerequisites();
      if (lane == 0)
        number = (by_arrival ? 0 : static_cast<int>(gridDim.x)) +
                 atomicAdd(a.work.next_item + (kPieces ? pieces_counter : chain_counter), 1);
      number = __shfl_sync(~0u, number, 0);
    }
    if (number >= a.items) return found;
    int i = number;  // of the part, then of the head, then of the sequence or piece slot
    found.part = i % kParts;
    i /= kParts;
    item.panel = kPieces ? 0 : found.part * (2 / Halves);
    item.head = i % a.p.num_value_heads;
    i /= a.p.num_value_heads;
    SlotPlace place;
    bool is_first = false;
    if (firsts_first) {
      is_first = i < a.p.num_sequences;
      if (!is_first) i -= a.p.num_sequences;
    }
    if (whole || is_first) {
      if (whole) wait_for_prerequisites();
      place.sequence = whole ? a.work.order[i] : i;
      place.begin = __ldg(a.p.sequence_offsets + place.sequence);
      place.end = __ldg(a.p.sequence_offsets + place.sequence + 1);
    } else {
      place = place_of_slot(a.p, i, lane, [&](int64_t offset, int n) {
        return first_piece_slot(offset, n, a.chunks_per_piece);
      });
    }
    found.sequence_length = place.end - place.begin;
    if (found.sequence_length == 0) continue;  // the pool row stays as it is
    item.token0 = static_cast<int>(place.begin);
    item.length = static_cast<int>(found.sequence_length);
    item.pool_row = a.p.slot_index != nullptr
                        ? static_cast<int>(__ldg(a.p.slot_index + place.sequence))
                        : place.sequence;
    item.chunk_slot = static_cast<int>(first_chunk_slot(place.begin, place.sequence));
    item.sequence = place.sequence;
    item.start = from_pool;
    item.flags = ends_sequence;
    if (whole) return found;
    const int chunks = a.chunks_per_piece,
              first_slot = static_cast<int>(first_piece_slot(place.begin, place.sequence, chunks));
    if (is_first) i = first_slot;
    found.piece = i - first_slot;
    if (a.first_pieces_beside && found.piece == 0 && !is_first) continue;
    if (item.pool_row < 0) {  // padding
      if (kPieces || found.piece > 0) continue;
      if (is_first) item.flags |= is_early;
      return found;
    }
    const int64_t begin = piece_begin(found.piece, chunks), end = begin + chunks * kChunk;
    if (begin >= found.sequence_length || (kPieces && end >= found.sequence_length)) continue;
    item.token0 += static_cast<int>(begin);
    item.length = static_cast<int>(min(end, found.sequence_length) - begin);
    item.chunk_slot += found.piece * chunks;
    item.piece_slot = i;
    if (end < found.sequence_length) item.flags = is_first ? hands_on : 0;
    if (is_first) item.flags |= is_early;
    return found;
  }
}

/// What there is to do for the chain that does not: nothing, at once.
__device__ __forceinline__ WorkItem no_item() {
  WorkItem item{};
  item.length = -1;
  item.flags = is_early;
  return item;
}

/// Whole warps: whether this launch of the chain is the one that works, once that is decided. The
/// other's blocks leave at once but for one, which stays for the kernels before: what comes after
/// waits for this kernel, and so for those.
__device__ __forceinline__ bool serves_this_run(const ChainParams& a) {
  int look = undecided;
  while (look == undecided) look = load_relaxed(a.work.decision);
  if (look == (a.serves == Serves::far_gates ? some_far : all_near)) return true;
  if (blockIdx.x == 0) wait_for_prerequisites();
  return false;
}

/// Whole warps, chain: where a piece begins and with what state.
__device__ __forceinline__ WorkItem begin_piece(const ChainParams& a, const FoundItem& found,
                                                int lane) {
  WorkItem item = found.item;
  const int before = found.piece * a.chunks_per_piece;
  const bool beside_others =
      a.serves == Serves::any_gates ? *a.work.decision == some_far : a.serves == Serves::far_gates;
  int own = own_chunks(a, item.chunk_slot, before, item.head, lane);
  if (beside_others) {
    if (own > kOwnChunksBesideOthers) own = -1;
  } else if (own < 0) {  // any_piece_is_far, which adds in another order, has found it near
    own = kOwnChunks;
  }
  if (own < 0) {
    item.combine = transitions_before(a, item.piece_slot, found.piece, item.head, lane);
    item.start =
        a.first_pieces_beside && item.combine == found.piece - 1 ? from_first : from_pieces;
    return item;
  }
  item.first_output = item.token0;
  item.token0 -= own * kChunk;
  item.length += own * kChunk;
  item.chunk_slot -= own;
  if (own < before) {
    item.start = from_zero;
  } else if (a.p.pool.read && (found.piece > 0 || !(item.flags & ends_sequence))) {
    item.start = from_saved;  // one of several pieces
  }
  return item;
}

/// Whole warps, pieces kernel: which chunks of a piece matter after it; length 0 if there is no
/// transition to make.
__device__ __forceinline__ WorkItem shorten_piece(const PiecesParams& a, const FoundItem& found,
                                                  int lane) {
  WorkItem item = found.item;
  const int chunks = a.chunks_per_piece,
            forget = chunks_to_forget(a, item.chunk_slot + chunks, chunks, item.head, lane);
  if (found.part == piece_transition) {
    item.start = from_unit;
    if (found.piece == 0 || forget > 0) item.length = 0;
    return item;
  }
  if (lane == 0)
    a.work
        .needs_transition[static_cast<int64_t>(item.piece_slot) * a.p.num_value_heads + item.head] =
        forget < 0;
  if (forget > 0 || found.piece > 0) item.start = from_zero;  // else the initial state
  if (forget > 0) {
    item.token0 += (chunks - forget) * kChunk;
    item.chunk_slot += chunks - forget;
    item.length = forget * kChunk;
  }
  return item;
}

/// One warp: takes work items, the first of which is found, and hands them on. The next is taken
/// when the last loads of this one are under way: earlier, and a block with much to do would keep
/// it from one that has done its own.
template <typename Layout, typename Params>
__device__ __forceinline__ void item_role(uint32_t sm, const Params& a, FoundItem found, int number,
                                          int lane) {
  constexpr bool kPieces = std::is_same_v<Params, PiecesParams>;
  RingCursor<typename Layout::Items> slot;
#pragma unroll 1
  for (;; found = find_item<2 / Layout::kMathWarpgroups>(a, number, lane)) {
    WorkItem item = found.item;
    // also at the end: a kernel that ended before those ahead of it would speak for them
    if (!(item.flags & is_early)) wait_for_prerequisites();
    if (item.length > 0 && item.pool_row >= 0) {
      if constexpr (kPieces) {
        item = shorten_piece(a, found, lane);
        if (item.length == 0) continue;
      } else if (a.chunks_per_piece > 0) {
        item = begin_piece(a, found, lane);
      }
    }
    if (lane == 0) {
      item.store(slot.buffer(sm));
      mbarrier_arrive(slot.full(sm));
      if (item.length >= 0) mbarrier_wait(slot.empty(sm), slot.round_parity);
    }
    __syncwarp();
    slot.advance();
    if (item.length < 0) return;
  }
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
