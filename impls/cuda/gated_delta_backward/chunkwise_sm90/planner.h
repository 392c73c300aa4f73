// The planner of the chains: from the lengths known at planning time, whether a block has all of V or a half, and into
// pieces of how many chunks sequences are cut. Host only, no CUDA header: what it decides is tested without CUDA
// (tests/planner_test.cpp). Other lengths than those of the plan are as correct: the kernels read lengths on the device.
// Halves change no bit; pieces do.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/gated_delta_backward/chunkwise_sm90/record.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {

/// What the steps of the chains cost on a card. The figures rank choices and are good for nothing else.
struct Costs {
  double whole_step_us;  ///< a chunk of either direction, a block for all of V
  double half_step_us;   ///< a block for a half
  double start_us;       ///< of a block, besides
  double bytes_per_us;   ///< what all blocks together read and write
  int ordinary_forget_chunks, strong_forget_chunks;  ///< that such gates take to forget
  double worthwhile;  ///< sequences are cut below this part of the time that they take whole
};
/// One NVIDIA H200, of 2026-11-28 (log.md).
inline constexpr Costs costs_h200{.whole_step_us = 1.9,
                                  .half_step_us = 1.5,
                                  .start_us = 5.0,
                                  .bytes_per_us = 3.3e6,
                                  .ordinary_forget_chunks = 7,
                                  .strong_forget_chunks = 1,
                                  .worthwhile = 0.97};

struct Shape {
  std::vector<std::int64_t> lengths;  ///< tokens of each sequence
  std::int64_t key_heads = 1, value_heads = 1;
  int directions = 2;  ///< chains that run side by side; 1: those forwards first
};

struct Division {
  int halves = 1;             ///< blocks that share one head's V
  int piece_chunks = kWhole;  ///< chunks of a piece
  bool in_pieces() const { return piece_chunks < kWhole; }
  bool operator==(const Division&) const = default;
};

/// `may_cut`: sequences may be cut into pieces.
Division choose(const Shape& shape, const Costs& costs, int multiprocessors, bool may_cut);

/// Expected time of the chains, or of those of a direction where they come one after the other; where gates forget within `forget` chunks.
double expected_us(const Shape& shape, const Division& division, int forget, const Costs& costs,
                   int multiprocessors);

/// Chunks per piece that choose() weighs, in increasing order; the last is kWhole.
std::vector<int> piece_lengths(const Shape& shape);

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
