#include "harness/layer_to_delta.h"

#include <cmath>

#include "interface/error.h"
#include "reference/reference.h"

namespace gdn {
namespace {

// Rows of `width` values at `first_channel` of every token of the convolution output, split into
// heads of `head_dim`; each head normalised if asked for, then rounded.
std::vector<float> take_heads(const std::vector<double>& conv_output, const Problem& p,
                              std::int64_t first_channel, std::int64_t width, std::int64_t head_dim,
                              bool normalize) {
  const std::int64_t tokens = p.total_tokens();
  const std::int64_t channels = p.conv_channels();
  const bool time_fastest = p.conv_layout == ConvLayout::time;
  std::vector<float> heads(static_cast<std::size_t>(tokens * width));
  std::vector<double> row(static_cast<std::size_t>(head_dim));
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t head = 0; head < width / head_dim; ++head) {
      double sum = 0;
      for (std::int64_t i = 0; i < head_dim; ++i) {
        const std::int64_t c = first_channel + head * head_dim + i;
        const double x =
            conv_output[static_cast<std::size_t>(time_fastest ? c * tokens + t : t * channels + c)];
        row[static_cast<std::size_t>(i)] = x;
        sum += x * x;
      }
      const double factor = normalize ? 1.0 / std::sqrt(sum + 1e-6) : 1.0;
      for (std::int64_t i = 0; i < head_dim; ++i) {
        heads[static_cast<std::size_t>(t * width + head * head_dim + i)] =
            round_to(p.token_dtype, static_cast<float>(row[static_cast<std::size_t>(i)] * factor));
      }
    }
  }
  return heads;
}

}  // namespace

Case gated_delta_case_of_layer(const Case& layer) {
  const Problem& p = layer.problem;
  if (p.operation != Operation::gated_delta_layer) {
    throw_bad_input("gated_delta_case_of_layer: the case does " + to_string(p.operation) +
                    ", expected gated_delta_layer");
  }
  const std::vector<double> conv_output = reference::evaluate<double>(layer).conv_output;
  const std::int64_t key_dim = p.num_key_heads * p.key_head_dim;
  const std::int64_t value_dim = p.num_value_heads * p.value_head_dim;

  Case delta;
  delta.problem = p;
  delta.problem.operation = Operation::gated_delta;
  delta.problem.normalize_qk = false;
  delta.sequence_offsets = layer.sequence_offsets;
  delta.slot_index = layer.slot_index;
  delta.query = take_heads(conv_output, p, 0, key_dim, p.key_head_dim, p.normalize_qk);
  delta.key = take_heads(conv_output, p, key_dim, key_dim, p.key_head_dim, p.normalize_qk);
  delta.value = take_heads(conv_output, p, 2 * key_dim, value_dim, p.value_head_dim, false);
  delta.gate = layer.gate;
  delta.beta = layer.beta;
  delta.state_pool = layer.state_pool;
  return delta;
}

}  // namespace gdn
