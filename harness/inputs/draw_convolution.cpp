#include "harness/inputs/draw_convolution.h"

#include <cmath>
#include <limits>

#include "harness/inputs/draw.h"
#include "interface/index_array.h"

namespace gdn {

namespace {

// As many tokens before the call as an index can say, but for what is drawn besides.
constexpr std::int64_t kLongPast = kLargestIndex - 1023;

}  // namespace

void draw_convolution(Case& c) {
  const Problem& p = c.problem;
  const std::int64_t channels = p.conv_channels();
  const std::int64_t places = p.window_places();
  const bool by_time = p.conv_layout == ConvLayout::time;
  const std::int64_t rows = by_time ? channels : p.total_tokens();
  const std::int64_t width = by_time ? p.total_tokens() : channels;
  const auto normal = [&](const char* name, std::int64_t n, std::int64_t m, double factor,
                          DType dtype) {
    return normal_rows(CounterStream(p.seed, name), n, m, m, factor, dtype);
  };
  c["qkv"] = normal("qkv", rows, width, 1, p.token_dtype);
  c["conv_weight"] =
      normal("conv_weight", channels, p.conv_width,
             1 / std::sqrt(static_cast<double>(p.conv_width)), p.effective_conv_weight_dtype());
  if (p.conv_bias) {
    c["conv_bias"] = normal("conv_bias", 1, channels, 0.1, p.effective_conv_weight_dtype());
  }
  if (p.conv_residual == ConvResidual::tensor) {
    c["residual"] = normal("residual", rows, width, 1, p.token_dtype);
  }
  if (p.fresh_windows) {
    std::vector<std::int64_t>& has_window = c.other_indices["has_window"];
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) has_window.push_back(n % 2);
  }
  if (p.window_order == WindowOrder::ring) {
    const CounterStream stream(p.seed, "window_position");
    std::vector<std::int64_t>& positions = c.other_indices["window_position"];
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      const auto tokens =
          static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(n), 1024));
      positions.push_back(n % 4 == 1 ? 0 : n % 4 == 2 ? tokens + kLongPast : tokens);
    }
  }
  if (p.reads_conv_window()) {
    c["conv_state"] = normal("conv_state", p.num_pool_rows(), channels * places, 1, p.state_dtype);
  } else if (p.writes_conv_window()) {  // nobody may read what it held
    c["conv_state"].assign(static_cast<std::size_t>(p.num_pool_rows() * channels * places),
                           std::numeric_limits<float>::quiet_NaN());
  }
}

}  // namespace gdn
