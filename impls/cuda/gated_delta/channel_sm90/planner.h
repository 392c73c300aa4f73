// The planner of channel_sm90: from the lengths known at planning time, whether sequences are cut
// into pieces (work_item.cuh), and of how many chunks. Host only, no CUDA header: what it decides is
// tested without CUDA (tests/planner_test.cpp). Other lengths than those of the plan are as correct:
// the kernels read lengths on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/gated_delta/channel_sm90/geometry.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

/// What the steps cost on a card, in microseconds. The figures rank choices and are good for nothing
/// else.
struct Costs {
  double chunk_us;             ///< of a sequence or a piece, with outputs
  double transition_chunk_us;  ///< of what is made of a piece for those after it
  double item_us;              ///< a work item besides its chunks
  double chain_us;             ///< the second and the third launch
  double chain_step_us;        ///< a transition applied
  double early_chunks;         ///< of a piece of a head that forgets
  double worthwhile;           ///< pieces are taken below this part of one launch's time
};
/// One NVIDIA H200, of 2026-11-26: the kernels' own times by ncu over six shapes (log.md), with six auxiliary warps; with
/// seven, sequences take 0.1 us less a chunk. The look that finds how early pieces begin is in none of them. early_chunks is chosen: strong gates take twelve, stronger ones fewer.
inline constexpr Costs costs_h200{.chunk_us = 1.085,
                                  .transition_chunk_us = 0.905,
                                  .item_us = 6.0,
                                  .chain_us = 8.0,
                                  .chain_step_us = 2.4,
                                  .early_chunks = 8,
                                  .worthwhile = 0.95};

struct Shape {
  std::vector<std::int64_t> lengths;  ///< tokens of each sequence
  std::int64_t value_heads = 1;

  std::int64_t sequences() const { return static_cast<std::int64_t>(lengths.size()); }
  std::int64_t tokens() const;
  std::int64_t longest() const;
};

/// Chunks of a piece: 0 where sequences stay whole. Whether heads forget is not known: of the lengths that
/// are worth it if none does, the one that takes least in the mean of all and none.
int choose(const Shape& shape, const Costs& costs, int multiprocessors);

/// Expected time of the launches together where no head forgets. `chunks`: of a piece, or 0.
double expected_us(const Shape& shape, int chunks, const Costs& costs, int multiprocessors);
/// The same of pieces where all heads do.
double expected_us_of_forgetting(const Shape& shape, int chunks, const Costs& costs,
                                 int multiprocessors);

/// Chunks of a piece that choose() weighs, in increasing order, without 0.
std::vector<int> piece_lengths(const Shape& shape);

/// Whether the kernels can cut sequences into such pieces.
bool can_cut(const Shape& shape, int chunks);

/// Slots of pieces times value heads.
std::int64_t piece_heads(const Shape& shape, int chunks);
/// Most of them that choose() takes: bounds the workspace.
inline constexpr std::int64_t kMostPieceHeads = 576;

/// Bytes of all states, and as many again are those of all transitions.
std::int64_t state_bytes(const Shape& shape, int chunks);
/// Bytes of what says how early pieces begin.
std::int64_t early_chunk_bytes(const Shape& shape, int chunks);
/// Of both and of the transitions.
std::int64_t pieces_bytes(const Shape& shape, int chunks);
/// The most workspace that a choice may take.
std::int64_t most_workspace_bytes(const Shape& shape);

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
