#include "cuda/gated_delta/channel_sm90/planner.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {
namespace {

/// A launch whose blocks take work items by their numbers, each every `blocks`-th.
class Blocks {
 public:
  explicit Blocks(int multiprocessors) : busy_us_(static_cast<std::size_t>(multiprocessors), 0.0) {}
  void add(double item_us, std::int64_t copies) {
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      busy_us_[next_] += item_us;
      if (++next_ == busy_us_.size()) next_ = 0;
    }
  }
  double end_us() const { return *std::max_element(busy_us_.begin(), busy_us_.end()); }

 private:
  std::vector<double> busy_us_;
  std::size_t next_ = 0;
};

double sequences_us(const Shape& shape, const Costs& costs, int multiprocessors) {
  std::vector<std::int64_t> lengths = shape.lengths;
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  Blocks blocks(multiprocessors);
  for (const std::int64_t length : lengths)
    if (length > 0)
      blocks.add(costs.item_us + costs.chunk_us * static_cast<double>(chunks_of(length)),
                 shape.value_heads);
  return blocks.end_us();
}

/// The last launch, whose pieces begin so many chunks early.
double outputs_us(const Shape& shape, int chunks, double early_chunks, const Costs& costs,
                  int multiprocessors) {
  Blocks pieces(multiprocessors);
  for (const std::int64_t length : shape.lengths)
    for (std::int64_t begin = 0; begin < chunks_of(length); begin += chunks) {
      const auto own =
          static_cast<double>(std::min<std::int64_t>(chunks_of(length) - begin, chunks));
      const double early = std::min(static_cast<double>(begin), early_chunks);
      pieces.add(costs.item_us + costs.chunk_us * (own + early), shape.value_heads);
    }
  return pieces.end_us();
}

double pieces_us(const Shape& shape, int chunks, const Costs& costs, int multiprocessors) {
  Blocks transitions(multiprocessors);
  std::int32_t most = 0;
  for (const std::int64_t length : shape.lengths) {
    const std::int32_t count = pieces_of(static_cast<std::int32_t>(length), chunks);
    most = std::max(most, count);
    transitions.add(costs.item_us + costs.transition_chunk_us * chunks,
                    transition_items(count) * shape.value_heads);
  }
  const double chain_us = costs.chain_us + costs.chain_step_us * std::max(0, most - 2);
  return transitions.end_us() + chain_us + outputs_us(shape, chunks, 0, costs, multiprocessors);
}

}  // namespace

std::int64_t Shape::tokens() const {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

std::int64_t Shape::longest() const {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

std::int64_t piece_heads(const Shape& shape, int chunks) {
  return piece_slots(shape.tokens(), shape.sequences(), chunks) * shape.value_heads;
}

bool can_cut(const Shape& shape, int chunks) {
  return shape.sequences() <= kMostOrderedSequences &&
         piece_slots(shape.tokens(), shape.sequences(), chunks) <= kMostPieceSlots;
}

/// The longest sequence in equal parts, of which the last is as long as the others.
std::vector<int> piece_lengths(const Shape& shape) {
  constexpr int kShortest = 4, kMostParts = 128;
  const auto longest = static_cast<int>(chunks_of(shape.longest()));
  std::vector<int> result;
  for (int parts = kMostParts; parts > 1; --parts) {
    const int chunks = (longest + parts - 1) / parts;
    if (chunks >= kShortest && (result.empty() || chunks > result.back()) &&
        can_cut(shape, chunks) && piece_heads(shape, chunks) <= kMostPieceHeads)
      result.push_back(chunks);
  }
  return result;
}

double expected_us(const Shape& shape, int chunks, const Costs& costs, int multiprocessors) {
  return chunks == 0 ? sequences_us(shape, costs, multiprocessors)
                     : pieces_us(shape, chunks, costs, multiprocessors);
}

double expected_us_of_forgetting(const Shape& shape, int chunks, const Costs& costs,
                                 int multiprocessors) {
  return costs.chain_us + outputs_us(shape, chunks, costs.early_chunks, costs, multiprocessors);
}

int choose(const Shape& shape, const Costs& costs, int multiprocessors) {
  if (shape.sequences() * shape.value_heads > kMostPieceHeads) return 0;
  const double worthwhile_us = costs.worthwhile * expected_us(shape, 0, costs, multiprocessors);
  double best_us = 0;
  int best = 0;
  for (const int chunks : piece_lengths(shape)) {
    const double us = expected_us(shape, chunks, costs, multiprocessors);
    if (us >= worthwhile_us) continue;
    const double mean_us =
        (us + expected_us_of_forgetting(shape, chunks, costs, multiprocessors)) / 2;
    if (best == 0 || mean_us < best_us) {
      best_us = mean_us;
      best = chunks;
    }
  }
  return best;
}

std::int64_t state_bytes(const Shape& shape, int chunks) {
  return piece_heads(shape, chunks) * kKeyDim * kValueDim * std::int64_t{sizeof(float)};
}

std::int64_t early_chunk_bytes(const Shape& shape, int chunks) {
  return piece_heads(shape, chunks) * std::int64_t{sizeof(std::int32_t)};
}

std::int64_t pieces_bytes(const Shape& shape, int chunks) {
  return 2 * state_bytes(shape, chunks) + early_chunk_bytes(shape, chunks);
}

std::int64_t most_workspace_bytes(const Shape& shape) {
  if (shape.sequences() * shape.value_heads > kMostPieceHeads) return 0;
  const std::vector<int> lengths = piece_lengths(shape);
  return lengths.empty() ? 0 : pieces_bytes(shape, lengths.front());
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
