// How much of a state matters to what comes after it, from the bounds that prepare leaves with the
// records.
//
// A piece begins as many chunks early, without output, as it takes to forget what was before them,
// or at the sequence's beginning: a near piece needs at most most_own_chunks() of
// them, a far one more.
// When a state is forgotten says chunk_sm90/forgetting.cuh.
#pragma once

#include "cuda/gated_delta/chunk_sm90/forgetting.cuh"
#include "cuda/gated_delta/fused_sm90/params.cuh"
#include "cuda/hopper/barrier.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

using namespace hopper;

/// Whole warps: of `chunks` chunks that end where slot `end` begins, how many of the last suffice
/// to forget the state before them; -1 if all of them do not.
template <typename Params>
__device__ __forceinline__ int chunks_to_forget(const Params& a, int end, int chunks, int head,
                                                int lane) {
  return chunk_sm90::chunks_to_forget(chunks, lane, [&](int i) {
    return a.work.transition_bound[static_cast<int64_t>(end - 1 - i) * a.p.num_value_heads + head];
  });
}

/// Whole warps: chunks before slot `end`, of the `before` that its sequence has there, from which
/// on the chain can run itself: as many as forget, or all. -1: more than most_own_chunks().
__device__ __forceinline__ int own_chunks(const ChainParams& a, int end, int before, int head,
                                          int lane) {
  const int most = most_own_chunks(a.rows);
  const int forget = chunks_to_forget(a, end, min(before, most), head, lane);
  return forget < 0 && before <= most ? before : forget;
}

/// Whole warps: how many of the pieces just before a piece (its sequence's first excepted) need
/// their transition.
__device__ __forceinline__ int transitions_before(const ChainParams& a, int piece_slot, int piece,
                                                  int head, int lane) {
#pragma unroll 1
  for (int count = 0; count < piece - 1; count += 32) {
    const int i = count + lane;
    const bool ends =
        i >= piece - 1 ||
        a.work.needs_transition[static_cast<int64_t>(piece_slot - 1 - i) * a.p.num_value_heads +
                                head] == 0;
    const unsigned int end = __ballot_sync(~0u, ends);
    if (end != 0) return count + __ffs(static_cast<int>(end)) - 1;
  }
  return max(piece - 1, 0);
}

/// Every thread of a block: whether one of its share of all pieces is far, so that the pieces
/// kernel has work. Waits for the kernels before this one, and lets those after it start.
template <int Threads>
__device__ __forceinline__ bool any_piece_is_far(const PiecesParams& a) {
  const int most = most_own_chunks(a.rows);
  bool far = false;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < a.near_piece_heads; i += Threads) {
    const int slot = i / a.p.num_value_heads, head = i % a.p.num_value_heads;
    int n = 0;
    int64_t begin = __ldg(a.p.sequence_offsets.word(0)), end = __ldg(a.p.sequence_offsets.word(1));
#pragma unroll 1
    for (int high = a.p.num_sequences; high - n > 1;) {
      const int middle = (n + high) / 2;
      const int64_t offset = __ldg(a.p.sequence_offsets.word(middle));
      if (first_piece_slot(offset, middle, a.near_chunks) <= slot) {
        n = middle;
        begin = offset;
        end = __ldg(a.p.sequence_offsets.word(middle + 1));
      } else {
        high = middle;
      }
    }
    const int before =
        (slot - static_cast<int>(first_piece_slot(begin, n, a.near_chunks))) * a.near_chunks;
    if (before <= most || before * int64_t{kChunk} >= end - begin ||
        (a.p.slot_index && __ldg(a.p.slot_index.word(n)) < 0))
      continue;
    wait_for_prerequisites();
    launch_dependents();
    // so many chunks just before the piece, and no other: what forgets there, own_chunks finds as
    // well
    const float* bound = a.work.transition_bound +
                         (first_chunk_slot(begin, n) + before - most) * a.p.num_value_heads + head;
    float bits = 0.f;
#pragma unroll 1
    for (int first = 0; first < most; first += kOwnChunks) {
#pragma unroll
      for (int chunk = 0; chunk < kOwnChunks; chunk++)
        bits += bound[static_cast<int64_t>(first + chunk) * a.p.num_value_heads];
    }
    far |= !(bits <= -kForgetBits);
  }
  return far;
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
