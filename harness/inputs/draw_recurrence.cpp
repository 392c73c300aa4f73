#include "harness/inputs/draw_recurrence.h"

#include <cmath>
#include <limits>

#include "harness/inputs/draw.h"

namespace gdn {

std::vector<float> draw_query(const Problem& p) {
  const std::int64_t rows = p.total_tokens() * p.num_key_heads;
  const std::int64_t width = p.key_head_dim;
  std::vector<float> values(static_cast<std::size_t>(rows * width));
  const CounterStream stream(p.seed, "query");
  parallel_ranges(rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      fill_unit(stream, static_cast<std::uint64_t>(row), values.data() + row * width, width);
    }
    round_in_place(p.token_dtype, values.data() + begin * width, (end - begin) * width);
  });
  return values;
}

std::vector<float> draw_key(const Problem& p) {
  const std::int64_t heads = p.num_key_heads;
  const std::int64_t rows = p.total_tokens() * p.steps * heads;
  const std::int64_t width = p.key_head_dim;
  std::vector<float> values(static_cast<std::size_t>(rows * width));
  const CounterStream stream(p.seed, "key");
  const CounterStream choice(p.seed, "key choice");
  // The direction keys of one head have in common.
  std::vector<float> common(static_cast<std::size_t>(heads * width));
  for (std::int64_t head = 0; head < heads; ++head) {
    fill_unit(CounterStream(p.seed, "key common"), static_cast<std::uint64_t>(head),
              common.data() + head * width, width);
  }
  const bool near_equal = p.keys == KeyDistribution::near_equal;
  const float cosine = near_equal ? 0.99f : 0.9f;
  const float sine = near_equal ? 0.141067360f : 0.435889894f;  // sqrt(1 - cosine^2)
  parallel_ranges(rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* out = values.data() + row * width;
      const float* shared = common.data() + row % heads * width;
      const std::uint64_t counter = static_cast<std::uint64_t>(row);
      switch (p.keys) {
        case KeyDistribution::unit:
          fill_unit(stream, counter, out, width);
          break;
        case KeyDistribution::correlated:
        case KeyDistribution::near_equal:
          fill_unit(stream, counter, out, width);
          for (std::int64_t i = 0; i < width; ++i) out[i] = cosine * shared[i] + sine * out[i];
          normalise(out, width);
          break;
        case KeyDistribution::lengths: {
          fill_unit(stream, counter, out, width);
          // The square of the length is 10^u, u ~ U(-1, 1).
          const auto length =
              static_cast<float>(portable_exp(portable_ln(10) * (choice.uniform(counter) - 0.5)));
          for (std::int64_t i = 0; i < width; ++i) out[i] *= length;
          break;
        }
        case KeyDistribution::equal:
          std::copy(shared, shared + width, out);
          break;
        case KeyDistribution::alternating: {
          const float sign = row / heads % 2 == 0 ? 1.0f : -1.0f;
          for (std::int64_t i = 0; i < width; ++i) out[i] = sign * shared[i];
          break;
        }
        case KeyDistribution::zero:
          if (choice.below(counter, 8) == 0) {
            std::fill(out, out + width, 0.0f);
          } else {
            fill_unit(stream, counter, out, width);
          }
          break;
        case KeyDistribution::unnormalised:
          fill_normal(stream, counter * (static_cast<std::uint64_t>(width + 1) / 2), out, width);
          break;
      }
    }
    round_in_place(p.token_dtype, values.data() + begin * width, (end - begin) * width);
  });
  return values;
}

std::vector<float> draw_value(const Problem& p) {
  return normal_rows(CounterStream(p.seed, "value"), p.total_tokens() * p.steps * p.num_value_heads,
                     p.value_head_dim, p.value_head_dim, 1, p.token_dtype);
}

std::vector<float> draw_state_pool(const Problem& p) {
  const std::int64_t rows = p.num_pool_rows();
  const std::int64_t stride = p.state_row_stride();
  if (p.initial_state == InitialState::absent) {
    return std::vector<float>(static_cast<std::size_t>(rows * stride),
                              std::numeric_limits<float>::quiet_NaN());
  }
  const double factor = p.initial_state == InitialState::huge ? 1e5
                        : p.initial_state == InitialState::large
                            ? 1e3
                            : 1 / std::sqrt(static_cast<double>(p.key_head_dim));
  return normal_rows(CounterStream(p.seed, "state"), rows, stride - p.pool_row_padding, stride,
                     factor, p.state_dtype);
}

bool recurrence_takes_any_magnitude(const Problem& p, const Operand& operand) {
  return operand.name != "k" || p.normalize_qk;
}

}  // namespace gdn
