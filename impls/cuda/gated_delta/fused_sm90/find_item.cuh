// Work items of the chain kernel and of the pieces kernel: how one warp of a block makes them, from
// a counter and from the lengths on the device. The code is kept short: a block runs it once for
// every item, so that its instructions come from memory and not from the cache.
//
// Pieces. Where there are fewer sequences and heads than multiprocessors, sequences are cut into
// pieces of equally many chunks. A piece needs the state at its beginning, and there are two ways
// to get it. A piece is near where a few chunks before it forget all that was before them: the
// chain then begins the piece that many chunks early, from zeros (forgetting.cuh). Where any piece
// is not near but far, the pieces kernel works: for every piece but a sequence's last it makes the
// state Z that the piece leaves where it begins with zeros (the first piece begins with the initial
// state), and the piece's transition M, so that S_out = S_in M + Z. The chain then starts all but
// the nearest pieces from the Z and M of the pieces before them, which is exact but for rounding.
// Where M is negligible the pieces kernel runs only as many of the piece's last chunks as it takes
// to forget.
//
// Two chains. The length of pieces that is best for near pieces seldom is best for far ones. So the
// chain may be launched twice, each time with its own length of pieces (or whole sequences) and
// with all of V or half of it in a block. The pieces kernel looks at the gates and decides which
// launch works; the other leaves at once.
//
// First pieces beside the pieces kernel. In the chain for far pieces, the first piece of every
// sequence can begin before the pieces kernel is done, on multiprocessors that this kernel leaves
// free, since the state at its beginning is known. Those items come first and wait for nothing of
// the pieces kernel. They hand on the state at their end, for which the items of later pieces wait.
#pragma once

#include <type_traits>

#include "cuda/gated_delta/chunk_sm90/slots.cuh"
#include "cuda/gated_delta/fused_sm90/chain_layout.cuh"
#include "cuda/gated_delta/fused_sm90/forgetting.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// A work item as far as lengths tell it, and what is needed to complete it from what the kernels
/// before this one have written.
struct FoundItem {
  WorkItem item;
  int piece;  // of its sequence; with pieces
  int part;   // chain: which columns of V; pieces kernel: the same of a state, then the transition
  int64_t sequence_length;
};

/// Whole warps: finds the next work item, as far as lengths tell it. Its length is -1 when there is
/// none.
///
/// `number` is the number of the item that this block took last, and -1 before its first. The first
/// item's number is the block's own, unless items go by arrival; later numbers come from a counter.
/// Whole sequences are numbered longest first, pieces as they lie; where first pieces run beside
/// the pieces kernel they come before all others.
///
/// Waiting. The function waits for the kernels before this one where it needs what they write. It
/// does not wait in two cases: for a block's first piece, whose number is the block's own; and in
/// the chain for far gates where first pieces run beside the pieces kernel. In the second case
/// early items take numbers from a counter and read records and saved states, all of which the
/// prepare kernel has written, without having waited. Why that is right:
///
/// - PTX promises of griddepcontrol.launch_dependents that the next grid can be scheduled once
///   every block of this grid has executed it or has ended. It says nothing of memory. Of
///   griddepcontrol.wait it promises that it returns when the grids before have completed and their
///   memory operations are performed and visible to this grid.
/// - Where two chains follow, the pieces kernel executes launch_dependents only after its own wait.
///   The chain for near gates, which passes the start on, cannot have begun before that. So no
///   block of the chain for far gates exists before prepare has completed and its writes are
///   performed.
/// - What is not promised is that those writes are visible to a grid that has not waited itself.
///   Early items rely on two things for that. Performed writes are in the L2 cache, from where
///   atomics and bulk copies read. And this multiprocessor's L1 has no older value of a saved
///   state, since the item's block is the first of this grid to read it.
/// - What the pieces kernel writes is read behind a wait, but for its decision, which is a flag of
///   its own.
template <int Halves, typename Params>
__device__ __forceinline__ FoundItem find_item(const Params& a, int& number, int lane) {
  constexpr bool kPieces = std::is_same_v<Params, PiecesParams>;
  // a head's work items: of two panels of V or of one; and of the pieces kernel its transition
  const int panels = value_panels(a.p.value_head_dim),
            parts = Halves == 2 ? panels : value_slices(panels) + (kPieces ? 1 : 0);
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
    // The number is made of the part, which changes fastest, the head, and the sequence or piece
    // slot.
    int i = number;
    found.part = i % parts;
    i /= parts;
    item.panel = found.part * (2 / Halves);
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
      place.begin = __ldg(a.p.sequence_offsets.word(place.sequence));
      place.end = __ldg(a.p.sequence_offsets.word(place.sequence + 1));
    } else {
      place = place_of_slot(a.p, i, lane, [&](int64_t offset, int n) {
        return first_piece_slot(offset, n, a.chunks_per_piece);
      });
    }
    found.sequence_length = place.end - place.begin;
    if (found.sequence_length == 0) continue;  // an empty sequence: the pool row stays as it is
    item.token0 = static_cast<int>(place.begin);
    item.length = static_cast<int>(found.sequence_length);
    item.pool_row = a.p.slot_index ? static_cast<int>(__ldg(a.p.slot_index.word(place.sequence)))
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

/// The work item of a launch of the chain that has no work: it ends every role, and waits for
/// nothing.
__device__ __forceinline__ WorkItem no_item() {
  WorkItem item{};
  item.length = -1;
  item.flags = is_early;
  return item;
}

/// Whole warps: waits until it is decided which launch of the chain works, and says whether it is
/// this one. If it is not, the blocks leave at once. Only block 0 stays until the kernels before
/// have completed: a kernel that comes after waits for this one alone, and must wait for those too.
__device__ __forceinline__ bool serves_this_run(const ChainParams& a) {
  int look = undecided;
  while (look == undecided) look = load_relaxed(a.work.decision);
  if (look == (a.serves == Serves::far_gates ? some_far : all_near)) return true;
  if (blockIdx.x == 0) wait_for_prerequisites();
  return false;
}

/// Whole warps, in the chain: completes the work item of a piece, with where it begins and with
/// which state.
__device__ __forceinline__ WorkItem begin_piece(const ChainParams& a, const FoundItem& found,
                                                int lane) {
  WorkItem item = found.item;
  const int before = found.piece * a.chunks_per_piece;
  const bool beside_others =
      a.serves == Serves::any_gates ? *a.work.decision == some_far : a.serves == Serves::far_gates;
  int own = own_chunks(a, item.chunk_slot, before, item.head, lane);
  if (beside_others) {
    if (own > kOwnChunksBesideOthers) own = -1;
  } else if (own < 0) {
    // No piece is far by any_piece_is_far, whose sums are in another order and round otherwise: it
    // has found this piece near, if only just, and so that many suffice.
    own = most_own_chunks(a.rows);
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
    item.start = from_saved;  // of several pieces: the last may have written the pool row by now
  }
  return item;
}

/// Whole warps, in the pieces kernel: completes the work item of a piece, with those of its chunks
/// that matter to what comes after it. Its length is 0 where there is no transition to make.
__device__ __forceinline__ WorkItem shorten_piece(const PiecesParams& a, const FoundItem& found,
                                                  int lane) {
  WorkItem item = found.item;
  const int chunks = a.chunks_per_piece,
            forget = chunks_to_forget(a, item.chunk_slot + chunks, chunks, item.head, lane);
  if (found.part == slices_of(a)) {
    item.start = from_unit;
    item.panel = 0;
    if (found.piece == 0 || forget > 0) item.length = 0;
    return item;
  }
  if (lane == 0)
    a.work
        .needs_transition[static_cast<int64_t>(item.piece_slot) * a.p.num_value_heads + item.head] =
        forget < 0;
  // A first piece that does not forget starts from the initial state, as find_item has said.
  if (forget > 0 || found.piece > 0) item.start = from_zero;
  if (forget > 0) {
    item.token0 += (chunks - forget) * kChunk;
    item.chunk_slot += chunks - forget;
    item.length = forget * kChunk;
  }
  return item;
}

/// The role of one warp: it takes work items, the first of which has been found already, and hands
/// them to the block's other roles. It takes the next item when the last loads of this one are
/// under way. Were it to take it earlier, a block with much left to do would keep an item from a
/// block that has done its own.
template <typename Layout, typename Params>
__device__ __forceinline__ void item_role(uint32_t sm, const Params& a, FoundItem found, int number,
                                          int lane) {
  constexpr bool kPieces = std::is_same_v<Params, PiecesParams>;
  RingCursor<typename Layout::Items> slot;
#pragma unroll 1
  for (;; found = find_item<2 / Layout::kMathWarpgroups>(a, number, lane)) {
    WorkItem item = found.item;
    // This waits before the last item too, which says that there are no more. A kernel that comes
    // after waits for this one alone, so that this one must not end before those ahead of it.
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
