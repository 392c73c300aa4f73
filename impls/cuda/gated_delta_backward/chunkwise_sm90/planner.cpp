#include "cuda/gated_delta_backward/chunkwise_sm90/planner.h"

#include <algorithm>

#include "cuda/gated_delta/chunk_sm90/schedule.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::backward_sm90 {
namespace {

constexpr int kNeverForget = 1 << 20;  // chunks

/// Bytes of a step of a chunk and value head, of both directions' mean: what is read, and what is left for the
/// gradients. K and Q are read once a key head.
struct StepBytes {
  double read, left;
};
StepBytes step_bytes(const Shape& shape) {
  const double group =
      static_cast<double>(shape.value_heads) / static_cast<double>(shape.key_heads);
  return {1.5 * kTileBytes / group + 1.5 * kTriangleTileBytes + kFactorBytes + kTileBytes,
          kStateBytes + 1.0 * kTileBytes};
}

}  // namespace

std::vector<int> piece_lengths(const Shape& shape) {
  constexpr std::int64_t kShortest = 4, kMostParts = 64, kMostPieceHeads = 4096;
  const std::int64_t longest =
      shape.lengths.empty() ? 0 : *std::max_element(shape.lengths.begin(), shape.lengths.end());
  const std::int64_t chunks = chunks_of(longest);
  std::vector<int> result;
  for (std::int64_t parts = kMostParts; parts > 1; --parts) {
    const std::int64_t each = (chunks + parts - 1) / parts;
    if (each < kShortest || (!result.empty() && each <= result.back())) continue;
    std::int64_t pieces = 0;
    for (const std::int64_t length : shape.lengths) pieces += (chunks_of(length) + each - 1) / each;
    if (pieces * shape.value_heads <= kMostPieceHeads) result.push_back(static_cast<int>(each));
  }
  result.push_back(kWhole);
  return result;
}

double expected_us(const Shape& shape, const Division& division, int forget, const Costs& costs,
                   int multiprocessors) {
  const double step_us = division.halves == 1 ? costs.whole_step_us : costs.half_step_us;
  std::vector<double> times;
  std::int64_t all_steps = 0, kept_steps = 0;
  for (const std::int64_t length : shape.lengths) {
    const std::int64_t chunks = chunks_of(length);
    // the last piece first, as the blocks come
    for (std::int64_t piece = chunks == 0 ? -1 : (chunks - 1) / division.piece_chunks; piece >= 0;
         --piece) {
      const std::int64_t begin = piece * division.piece_chunks,
                         own = std::min<std::int64_t>(division.piece_chunks, chunks - begin),
                         steps = own + std::min<std::int64_t>(forget, begin);
      times.push_back(costs.start_us + static_cast<double>(steps) * step_us);
      all_steps += steps;
      kept_steps += own;
    }
  }
  const StepBytes bytes = step_bytes(shape);
  const double memory_us =
      static_cast<double>(shape.directions * shape.value_heads) *
      (static_cast<double>(all_steps) * bytes.read + static_cast<double>(kept_steps) * bytes.left) /
      costs.bytes_per_us;
  return std::max(memory_us, makespan(times, shape.directions * shape.value_heads * division.halves,
                                      multiprocessors));
}

Division choose(const Shape& shape, const Costs& costs, int multiprocessors, bool may_cut) {
  const auto us = [&](const Division& division, int forget) {
    return expected_us(shape, division, forget, costs, multiprocessors);
  };
  const auto weighed_us = [&](const Division& division) {
    return (us(division, kNeverForget) + us(division, costs.ordinary_forget_chunks) +
            us(division, costs.strong_forget_chunks)) /
           3;
  };
  Division best;
  const Division halved{.halves = 2};
  // Of divisions that memory makes alike, that which all multiprocessors work on: a few alone do not reach its speed.
  const std::int64_t halved_blocks =
      2 * shape.directions * shape.value_heads * static_cast<std::int64_t>(shape.lengths.size());
  const double whole_us = us(best, 0), halved_us = us(halved, 0);
  if (halved_us < whole_us || (halved_us == whole_us && halved_blocks <= multiprocessors))
    best = halved;
  if (!may_cut) return best;
  double best_us = costs.worthwhile * weighed_us(best);
  for (const int piece_chunks : piece_lengths(shape)) {
    for (const int halves : {1, 2}) {
      const Division division{halves, piece_chunks};
      const double division_us = weighed_us(division);
      if (division_us < best_us) {
        best_us = division_us;
        best = division;
      }
    }
  }
  return best;
}

}  // namespace gdn::GDN_CUDA_TARGET::backward_sm90
