#include "harness/inputs/draw_edges.h"

#include <cmath>

#include "harness/inputs/draw.h"

namespace gdn {
namespace {

bool is_float16_anywhere(const Problem& p) {
  return p.token_dtype == DType::float16 || p.state_dtype == DType::float16 ||
         p.effective_output_dtype() == DType::float16;
}

float factor_of(const Problem& p, std::int64_t kind, std::uint64_t row,
                const CounterStream& stream) {
  if (kind % 3 == 0) return 1;
  if (kind % 3 == 1) {
    if (stream.below(2 * row, 8) == 0) return 0;
    return std::ldexp(1.0f, -6 - static_cast<int>(stream.below(2 * row + 1, 12)));
  }
  const std::uint64_t most = is_float16_anywhere(p) ? 6 : 20;
  return std::ldexp(1.0f, 4 + static_cast<int>(stream.below(2 * row, most - 3)));
}

}  // namespace

void draw_edges(Case& c, const Operand& operand) {
  const Problem& p = c.problem;
  std::int64_t heads = 1;
  for (const Dimension& dimension : operand.shape(p)) {
    if (dimension.heads != Heads::none) heads = dimension.size(p);
  }
  // [T, .., heads, width], or [channels, T]: a row's elements, and how far apart they lie.
  const bool by_time = tokens_are_fastest(operand, p);
  const std::int64_t per_token = elements_per_token(operand, p);
  const std::int64_t width = per_token / heads;
  const std::int64_t stride = by_time ? p.total_tokens() : 1;
  const CounterStream stream(p.seed, operand.name + " magnitude");
  std::vector<float>& values = c[operand.name];
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    for (std::int64_t t = c.first_token(n); t < c.first_token(n) + c.length(n); ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto row = static_cast<std::uint64_t>(t * heads + h);
        const float factor = factor_of(p, n + h, row, stream);
        const std::int64_t first = by_time ? t : t * per_token + h * width;
        for (std::int64_t j = 0; j < width; ++j) {
          float& value = values[static_cast<std::size_t>(first + j * stride)];
          value = round_to(p.token_dtype, value * factor);
        }
      }
    }
  }
}

}  // namespace gdn
