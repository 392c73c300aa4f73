#include "interface/channel_quantization.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "interface/error.h"
#include "interface/problem.h"

namespace gdn {
namespace {

// Largest magnitude of a channel; NaN where it holds one.
float largest_of(const ChannelQuantization& q, std::int64_t channel) {
  float largest = 0;
  for (std::int64_t i = 0; i < q.layout.extent; ++i) {
    const float value = std::abs(q.values[q.layout.place(channel, i)]);
    if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, value);
  }
  return largest;
}

}  // namespace

const Operand* scaled_output(const Problem& problem) {
  for (const Operand& operand : problem.operation->operands) {
    if (operand.scaled.by.empty() || !is_present(operand, problem)) continue;
    if (is_present(scales_of(operand, *problem.operation), problem)) return &operand;
  }
  return nullptr;
}

const Operand& scales_of(const Operand& operand, const OperationSchema& schema) {
  return schema.at(operand.scaled.by);
}

ChannelLayout channel_layout(const Operand& operand, const Problem& problem) {
  const auto values = operand.shape(problem);
  const auto scales = scales_of(operand, *problem.operation).shape(problem);
  std::size_t along = 0;
  while (along < scales.size() && std::string_view(values[along].name) == scales[along].name)
    ++along;
  if (values.size() != scales.size() + 1) {
    throw_bad_input(operand.name + ": its scales " + operand.scaled.by + " have " +
                    std::to_string(scales.size()) + " dimensions, expected " +
                    std::to_string(values.size() - 1));
  }
  ChannelLayout layout{1, values[along].size(problem), 1};
  for (std::size_t d = 0; d < values.size(); ++d) {
    if (d != along) (d < along ? layout.outer : layout.inner) *= values[d].size(problem);
  }
  return layout;
}

void quantize_on_host(const ChannelQuantization& q) {
  for (std::int64_t channel = 0; channel < q.layout.channels(); ++channel) {
    const float quotient = largest_of(q, channel) / static_cast<float>(kLargestInt8);
    const float scale = quotient < kSmallestScale ? 0.0f : quotient;
    q.scales[channel] = scale;
    const bool is_zero = scale == 0 || !std::isfinite(scale);
    for (std::int64_t i = 0; i < q.layout.extent; ++i) {
      const std::int64_t at = q.layout.place(channel, i);
      q.elements[at] =
          is_zero ? std::int8_t{0} : static_cast<std::int8_t>(std::nearbyint(q.values[at] / scale));
    }
  }
}

}  // namespace gdn
