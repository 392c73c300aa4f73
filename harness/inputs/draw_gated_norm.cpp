#include "harness/inputs/draw_gated_norm.h"

#include <cmath>

#include "harness/inputs/draw.h"

namespace gdn {
namespace {

// What a unit (a value head of a sequence) is drawn as, so that no large value of one kind hides
// another's error: errors are relative to the unit's length.
enum class Kind {
  ordinary,  // x and z N(0, 1)
  small,     // rows of x times 2^-6 .. 2^-23, one row in 8 zeros: eps counts, or is all there is
  large,     // rows of x times 2^4 .. 2^50 (float16: 2^12): no square may leave float32
  far,       // one z in 4 times 2^7, one in 32 times 2^9: beyond where exp overflows, either side
};

// Sequences and heads in turn. One head of one sequence is ordinary.
Kind kind_of(std::int64_t sequence, std::int64_t head) {
  return static_cast<Kind>((sequence + head) % 4);
}

// Powers of two alone: exact, but where a 16-bit type has subnormals, which the rounding sees to.
float row_factor(Kind kind, DType dtype, std::uint64_t row, const CounterStream& stream) {
  if (kind == Kind::small) {
    if (stream.below(2 * row, 8) == 0) return 0;
    return std::ldexp(1.0f, -6 - static_cast<int>(stream.below(2 * row + 1, 18)));
  }
  if (kind != Kind::large) return 1;
  const std::uint64_t most = dtype == DType::float16 ? 12 : 50;
  return std::ldexp(1.0f, 4 + static_cast<int>(stream.below(2 * row, most - 3)));
}

float gate_factor(std::uint64_t element, const CounterStream& stream) {
  const std::uint64_t place = stream.below(element, 32);
  if (place == 0) return 512;
  return place <= 8 ? 128 : 1;
}

void draw_row(Case& c, std::int64_t sequence, std::int64_t head, std::int64_t row) {
  const Problem& p = c.problem;
  const std::int64_t width = p.value_head_dim;
  const Kind kind = kind_of(sequence, head);
  if (kind == Kind::ordinary) return;
  if (kind == Kind::far) {
    const CounterStream stream(p.seed, "z magnitude");
    float* const z = c["z"].data() + row * width;
    for (std::int64_t j = 0; j < width; ++j) {
      z[j] *= gate_factor(static_cast<std::uint64_t>(row * width + j), stream);
    }
    return round_in_place(p.token_dtype, z, width);
  }
  const CounterStream stream(p.seed, "x magnitude");
  const float factor = row_factor(kind, p.token_dtype, static_cast<std::uint64_t>(row), stream);
  float* const x = c["x"].data() + row * width;
  for (std::int64_t j = 0; j < width; ++j) x[j] *= factor;
  round_in_place(p.token_dtype, x, width);
}

}  // namespace

void draw_gated_norm(Case& c) {
  const Problem& p = c.problem;
  const std::int64_t width = p.value_head_dim;
  const std::int64_t heads = p.num_value_heads;
  const auto normal = [&](const char* name, std::int64_t rows, double factor) {
    return normal_rows(CounterStream(p.seed, name), rows, width, width, factor, p.token_dtype);
  };
  c["x"] = normal("x", p.total_tokens() * heads, 1);
  c["z"] = normal("z", p.total_tokens() * heads, 1);
  c["weight"] = normal("weight", 1, 0.25);
  for (float& weight : c["weight"]) weight += 1.0f;
  round_in_place(p.token_dtype, c["weight"].data(), width);
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t first = c.first_token(n);
    parallel_ranges(c.length(n) * heads, width, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) draw_row(c, n, i % heads, first * heads + i);
    });
  }
}

}  // namespace gdn
