// What generated inputs are drawn with. Every array is its own stream of the counter-based generator
// (counter_random.h), and every row (token and head, or pool row) owns a fixed range of counters, so
// rows are made by any thread and the same problem is the same numbers on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "harness/inputs/counter_random.h"
#include "interface/case.h"
#include "interface/problem.h"
#include "reference/parallel.h"

namespace gdn {

/// Runs body(begin, end) over [0, count) in as many ranges as there are threads worth starting.
template <typename Body>
void parallel_ranges(std::int64_t count, std::int64_t values_per_item, const Body& body) {
  constexpr std::int64_t kValuesWorthAThread = 1 << 16;
  const std::int64_t hardware = std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t threads =
      std::clamp<std::int64_t>(count * values_per_item / kValuesWorthAThread, 1, hardware);
  reference::parallel_for(threads, static_cast<int>(threads), [&](std::int64_t i) {
    body(count * i / threads, count * (i + 1) / threads);
  });
}

void round_in_place(DType dtype, float* values, std::int64_t count);

/// rows x width values N(0, 1) * factor, rounded to dtype, each row `stride` elements after the
/// last; NaN between them.
std::vector<float> normal_rows(const CounterStream& stream, std::int64_t rows, std::int64_t width,
                               std::int64_t stride, double factor, DType dtype);

/// Divides the row by its length.
void normalise(float* row, std::int64_t width);
/// Row number `row` of unit length, in a uniform direction.
void fill_unit(const CounterStream& stream, std::uint64_t row, float* out, std::int64_t width);

/// N(0, 1).
double standard_normal(const CounterStream& stream, std::uint64_t counter);
double draw_uniform(const ValueRange& range, double u);

/// Throws Error(bad_input) where the problem has fewer pool rows than sequences that own one.
void require_row_for_each(const Problem& problem);
/// A random injection (Fisher-Yates) of the sequences into num_pool_rows() rows; with slots=padding
/// every third sequence has -1. Empty with slots=identity.
std::vector<std::int64_t> draw_slot_index(const Problem& problem);
/// Where output_slots is other: of six sequences the third writes the row that it reads, the fifth none,
/// the others rows that nobody reads, as long as there are any; the second reads what the first does
/// (where there are slots).
void draw_output_slots(Case& c);
/// Where there are checkpoints: rising counts, some left out; of sequences in turn at any tokens, at
/// multiples of 64, and at the last token too.
void draw_checkpoints(Case& c);
/// rounding_seed, where the problem has it.
void draw_rounding_seeds(Case& c);

}  // namespace gdn
