#include "harness/inputs/draw.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "interface/error.h"
#include "interface/operations/batch_operands.h"
#include "interface/operations/checkpoint_operands.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {

void fill_normal(const CounterStream& stream, std::uint64_t first_counter, float* destination,
                 std::int64_t count) {
  constexpr std::int64_t kBlock = 256;
  std::uint64_t words[kBlock];
  float first[kBlock];
  float second[kBlock];
  const std::int64_t pairs = (count + 1) / 2;
  for (std::int64_t begin = 0; begin < pairs; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, pairs - begin);
    for (std::int64_t i = 0; i < n; ++i) {
      words[i] = stream.bits(first_counter + static_cast<std::uint64_t>(begin + i));
    }
    for (std::int64_t i = 0; i < n; ++i) normal_pair(words[i], &first[i], &second[i]);
    float* out = destination + 2 * begin;
    const std::int64_t whole = std::min(n, (count - 2 * begin) / 2);
    for (std::int64_t i = 0; i < whole; ++i) {
      out[2 * i] = first[i];
      out[2 * i + 1] = second[i];
    }
    if (whole < n) out[2 * whole] = first[whole];
  }
}

void round_in_place(DType dtype, float* values, std::int64_t count) {
  if (dtype == DType::float32) return;
  constexpr std::int64_t kBlock = 4096;
  std::uint16_t encoded[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, count - begin);
    encode(dtype, values + begin, encoded, n);
    decode(dtype, encoded, values + begin, n);
  }
}

std::vector<float> normal_rows(const CounterStream& stream, std::int64_t rows, std::int64_t width,
                               std::int64_t stride, double factor, DType dtype) {
  std::vector<float> values(static_cast<std::size_t>(rows * stride),
                            std::numeric_limits<float>::quiet_NaN());
  // Work is cut into fixed pieces of a row, so that one long row is shared by the threads too.
  constexpr std::int64_t kPiece = 4096;
  const std::int64_t pieces = (width + kPiece - 1) / kPiece;
  const std::uint64_t counters_per_row = static_cast<std::uint64_t>(width + 1) / 2;
  const float scale = static_cast<float>(factor);
  parallel_ranges(rows * pieces, std::min(width, kPiece),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t item = begin; item < end; ++item) {
                      const std::int64_t row = item / pieces;
                      const std::int64_t at = item % pieces * kPiece;
                      const std::int64_t count = std::min(kPiece, width - at);
                      float* out = values.data() + row * stride + at;
                      fill_normal(stream,
                                  static_cast<std::uint64_t>(row) * counters_per_row +
                                      static_cast<std::uint64_t>(at / 2),
                                  out, count);
                      if (scale != 1.0f) {
                        for (std::int64_t i = 0; i < count; ++i) out[i] *= scale;
                      }
                      round_in_place(dtype, out, count);
                    }
                  });
  return values;
}

void normalise(float* row, std::int64_t width) {
  // Four partial sums: a fixed order, and short dependency chains.
  double sums[4] = {0, 0, 0, 0};
  std::int64_t i = 0;
  for (; i + 4 <= width; i += 4) {
    for (int lane = 0; lane < 4; ++lane) {
      sums[lane] += static_cast<double>(row[i + lane]) * static_cast<double>(row[i + lane]);
    }
  }
  for (; i < width; ++i) sums[0] += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  const double length = std::sqrt((sums[0] + sums[1]) + (sums[2] + sums[3]));
  const float scale = static_cast<float>(1.0 / length);
  for (i = 0; i < width; ++i) row[i] *= scale;
}

void fill_unit(const CounterStream& stream, std::uint64_t row, float* out, std::int64_t width) {
  fill_normal(stream, row * (static_cast<std::uint64_t>(width + 1) / 2), out, width);
  normalise(out, width);
}

double standard_normal(const CounterStream& stream, std::uint64_t counter) {
  float first = 0;
  float second = 0;
  normal_pair(stream.bits(counter), &first, &second);
  return static_cast<double>(first);
}

double draw_uniform(const ValueRange& range, double u) {
  return range.low == range.high ? range.low : range.low + (range.high - range.low) * u;
}

void require_row_for_each(const Problem& p) {
  const std::int64_t padding = p.slots == SlotMap::padding ? p.num_sequences() / 3 : 0;
  const std::int64_t needed = p.num_sequences() - padding;
  if (p.num_pool_rows() >= needed) return;
  throw_bad_input("problem: pool_rows=" + std::to_string(p.num_pool_rows()) +
                  ": expected a row for each of the " + std::to_string(needed) +
                  " sequences that own one");
}

std::vector<std::int64_t> draw_slot_index(const Problem& p) {
  if (p.slots == SlotMap::identity) return {};
  require_row_for_each(p);
  const auto sequences = static_cast<std::size_t>(p.num_sequences());
  const auto is_padding = [&](std::size_t n) { return p.slots == SlotMap::padding && n % 3 == 2; };
  std::vector<std::int64_t> rows(static_cast<std::size_t>(p.num_pool_rows()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  const CounterStream stream(p.seed, "slots");
  for (std::size_t i = rows.size() - 1; i > 0; --i)
    std::swap(rows[i], rows[stream.below(i, i + 1)]);
  if (rows.size() >= sequences) {
    rows.resize(sequences);
    for (std::size_t n = 0; n < sequences; ++n) rows[n] = is_padding(n) ? -1 : rows[n];
    return rows;
  }
  // Fewer rows than sequences: padding takes none.
  std::vector<std::int64_t> slots;
  std::size_t next = 0;
  for (std::size_t n = 0; n < sequences; ++n) slots.push_back(is_padding(n) ? -1 : rows[next++]);
  return slots;
}

void draw_output_slots(Case& c) {
  const Problem& p = c.problem;
  if (p.output_slots == OutputSlots::same) return;
  std::vector<bool> is_read(static_cast<std::size_t>(p.num_pool_rows()), false);
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    if (n % 6 == 1 && c.slot(n) >= 0 && c.slot(n - 1) >= 0 && !c.slot_index.empty())
      c.slot_index[static_cast<std::size_t>(n)] = c.slot(n - 1);
    if (c.slot(n) >= 0) is_read[static_cast<std::size_t>(c.slot(n))] = true;
  }
  std::vector<std::int64_t> free_rows;
  for (std::size_t row = is_read.size(); row-- > 0;) {
    if (!is_read[row]) free_rows.push_back(static_cast<std::int64_t>(row));
  }
  std::vector<std::int64_t>& slots = c.other_indices[kOutputSlotIndex];
  std::size_t next = 0;
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const bool is_shared = n % 6 <= 1;
    const bool has_row = next < free_rows.size();
    if (n % 6 == 4 || (is_shared && !has_row)) {
      slots.push_back(-1);
    } else if (n % 6 == 2 || !has_row) {
      slots.push_back(c.slot(n));
    } else {
      slots.push_back(free_rows[next++]);
    }
  }
}

void draw_rounding_seeds(Case& c) {
  const Problem& p = c.problem;
  if (p.state_rounding != StateRounding::stochastic) return;
  const CounterStream stream(p.seed, "rounding_seed");
  std::vector<std::int64_t>& seeds = c.other_indices[kRoundingSeed];
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    seeds.push_back(static_cast<std::int64_t>(
        stream.below(static_cast<std::uint64_t>(n), std::uint64_t{1} << 31)));
  }
}

void draw_checkpoints(Case& c) {
  const std::int64_t checkpoints = c.problem.checkpoints;
  if (checkpoints == 0) return;
  const CounterStream stream(c.problem.seed, "checkpoints");
  std::vector<std::int64_t>& counts = c.other_indices[kCheckpointTokens];
  for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
    const std::int64_t length = c.length(n);
    const auto draw = [&](std::int64_t place, std::int64_t below) {
      return static_cast<std::int64_t>(stream.below(
          static_cast<std::uint64_t>(n * checkpoints + place), static_cast<std::uint64_t>(below)));
    };
    std::set<std::int64_t> drawn;
    for (std::int64_t j = 0; j < checkpoints && length > 0; ++j) {
      // Sequences in turn: anywhere; the ends of chunks; anywhere, and the sequence's end.
      std::int64_t count = 1 + draw(j, length);
      if (n % 3 == 1) count = std::max<std::int64_t>(count / 64 * 64, 1);
      if (n % 3 == 2 && j == 0) count = length;
      drawn.insert(count);
    }
    // As many are not wanted as were drawn twice; they stand anywhere among the others.
    std::vector<std::int64_t> row(drawn.begin(), drawn.end());
    while (static_cast<std::int64_t>(row.size()) < checkpoints) {
      const auto place = static_cast<std::int64_t>(row.size());
      row.insert(row.begin() + draw(place, place + 1), 0);
    }
    counts.insert(counts.end(), row.begin(), row.end());
  }
}

}  // namespace gdn
