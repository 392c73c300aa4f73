#include "harness/inputs/draw_ring.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/inputs/draw.h"
#include "harness/inputs/draw_recurrence.h"
#include "interface/operations/gated_delta_ring.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

struct RingOfSequence {
  std::int64_t first;
  std::int64_t length;
  std::int64_t fold;
};

RingOfSequence draw_sequence(const Case& c, const CounterStream& stream, std::int64_t n) {
  const Problem& p = c.problem;
  const auto below = [&](std::uint64_t which, std::int64_t bound) {
    return static_cast<std::int64_t>(
        stream.below(4 * static_cast<std::uint64_t>(n) + which, static_cast<std::uint64_t>(bound)));
  };
  const std::int64_t room = ring_places(p) - c.length(n);
  const std::int64_t first = below(0, ring_places(p));
  switch (p.ring_fill) {
    case RingFill::mixture: {
      const std::int64_t any = below(1, room + 1);
      const std::int64_t lengths[] = {any, 0, room, any};
      return {first, lengths[n % 4], below(2, 2)};
    }
    case RingFill::none:
      return {first, 0, 0};
    case RingFill::all:
      return {first, room, 1};
    case RingFill::cycle: {
      const std::int64_t tokens = std::max<std::int64_t>(1, c.length(n));
      const std::int64_t calls = ring_places(p) / tokens;
      const std::int64_t call = n % calls;
      return {first, call * tokens, call + 1 == calls ? 1 : 0};
    }
  }
  return {};
}

// The problem whose tokens are the places of all rows.
Problem problem_of_places(const Problem& p) {
  Problem places = p;
  places.set_gate_encoding(GateEncoding::decay);
  places.logit_type = LogitType::float32;
  places.sequences.lengths = {p.num_pool_rows() * ring_places(p)};
  places.seed = p.seed + 0x72696e67;  // not the draws of the tokens
  return places;
}

// [rows, width] dense to rows as the pool has them.
std::vector<float> as_pool(const Operand& operand, const Problem& p,
                           const std::vector<float>& dense) {
  const std::int64_t rows = p.num_pool_rows();
  const std::int64_t width = row_elements(operand, p);
  const std::int64_t stride = row_stride(operand, p);
  std::vector<float> pool(static_cast<std::size_t>(rows * stride),
                          std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t row = 0; row < rows; ++row) {
    std::copy_n(dense.begin() + row * width, width, pool.begin() + row * stride);
  }
  return pool;
}

std::vector<float> draw_updates(const Problem& p, const std::vector<float>& keys) {
  const std::int64_t places = p.num_pool_rows() * ring_places(p);
  const std::int64_t Dk = p.key_head_dim, Dv = p.value_head_dim;
  const CounterStream stream(p.seed, "ring update");
  std::vector<float> updates =
      normal_rows(stream, places * p.num_value_heads, Dv, Dv, 0.5, DType::float32);
  const DType dtype = ring_update_dtype(p);
  parallel_ranges(places * p.num_value_heads, Dk + Dv, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t vector = begin; vector < end; ++vector) {
      float* const update = updates.data() + vector * Dv;
      const std::int64_t place = vector / p.num_value_heads;
      const std::int64_t key_head = vector % p.num_value_heads / p.value_heads_per_key_head();
      const float* const key = keys.data() + (place * p.num_key_heads + key_head) * Dk;
      double squares = 1e-6;
      for (std::int64_t i = 0; i < Dk; ++i) squares += double{key[i]} * double{key[i]};
      const auto length = static_cast<float>(std::sqrt(squares));
      for (std::int64_t j = 0; j < Dv && p.normalize_qk; ++j) update[j] /= length;
      round_in_place(dtype, update, Dv);
    }
  });
  return updates;
}

}  // namespace

void draw_ring(Case& c) {
  const Problem& p = c.problem;
  const CounterStream stream(p.seed, "ring");
  for (const char* const name : {"ring_first", "ring_length", "ring_fold"}) {
    c.other_indices[name].clear();
  }
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const RingOfSequence ring = draw_sequence(c, stream, n);
    c.other_indices["ring_first"].push_back(ring.first);
    c.other_indices["ring_length"].push_back(ring.length);
    c.other_indices["ring_fold"].push_back(ring.fold);
  }
  Case places;
  places.problem = problem_of_places(p);
  draw_gates(places);
  const std::vector<float> keys = draw_key(places.problem);
  const auto pool_of = [&](const char* name, const std::vector<float>& dense) {
    c[name] = as_pool(p.operation->at(name), p, dense);
  };
  pool_of("ring_key", keys);
  pool_of("ring_update", draw_updates(p, keys));
  pool_of("ring_decay", places[gate_name(places.problem)]);
}

}  // namespace gdn
