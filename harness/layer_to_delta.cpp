#include "harness/layer_to_delta.h"

#include <cmath>

#include "interface/error.h"
#include "reference/reference.h"

namespace gdn {
namespace {

constexpr double kNormEpsilon = 1e-6;  // contract 1.1: sqrt(sum x^2 + 1e-6)

// One head's vector from the convolution's output (element i at data[i * stride]), normalised if
// `normalise`, rounded.
void take_head(const double* data, std::int64_t stride, std::int64_t width, bool normalise,
               DType dtype, float* destination) {
  double length = 1;
  if (normalise) {
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += data[i * stride] * data[i * stride];
    length = std::sqrt(squares + kNormEpsilon);
  }
  for (std::int64_t i = 0; i < width; ++i) {
    destination[i] = round_to(dtype, static_cast<float>(data[i * stride] / length));
  }
}

}  // namespace

Problem layer_to_delta(const Problem& layer) {
  if (layer.operation != Operation::gated_delta_layer) {
    throw_bad_input("layer_to_delta: the operation is " + to_string(layer.operation) +
                    ", expected gated_delta_layer");
  }
  const Problem defaults;
  Problem p = layer;
  p.operation = Operation::gated_delta;
  p.normalize_qk = false;
  p.gate_encoding = GateEncoding::log_decay;
  p.beta_encoding = BetaEncoding::beta;
  p.conv_width = defaults.conv_width;
  p.conv_bias = defaults.conv_bias;
  p.activation = defaults.activation;
  p.conv_layout = defaults.conv_layout;
  p.conv_state_in_place = defaults.conv_state_in_place;
  return p;
}

Case layer_to_delta(const Case& layer) {
  Case c;
  c.problem = layer_to_delta(layer.problem);
  const Problem& p = c.problem;
  c.sequence_offsets = layer.sequence_offsets;
  c.slot_index = layer.slot_index;
  c.state_pool = layer.state_pool;

  const auto gates = reference::decode_gates<double>(layer);
  c.gate.values.assign(gates.log_decay.begin(), gates.log_decay.end());
  c.beta.values.assign(gates.beta.begin(), gates.beta.end());

  Case convolution = layer;
  convolution.problem.operation = Operation::causal_conv1d;
  convolution.problem.update = UpdateRule::delta;  // variants are of the recurrence
  convolution.problem.decay = DecayPer::head;
  const std::vector<double> channels = reference::evaluate<double>(convolution).conv_output;
  const bool by_time = layer.problem.conv_layout == ConvLayout::time;
  const std::int64_t token_stride = by_time ? 1 : p.conv_channels();
  const std::int64_t stride = by_time ? p.total_tokens() : 1;
  const std::int64_t key_dims = p.num_key_heads * p.key_head_dim;
  const std::int64_t value_dims = p.num_value_heads * p.value_head_dim;
  c.query.resize(static_cast<std::size_t>(p.total_tokens() * key_dims));
  c.key.resize(c.query.size());
  c.value.resize(static_cast<std::size_t>(p.total_tokens() * value_dims));
  for (std::int64_t t = 0; t < p.total_tokens(); ++t) {
    const double* token = channels.data() + t * token_stride;
    for (std::int64_t h = 0; h < p.num_key_heads; ++h) {
      const std::int64_t at = h * p.key_head_dim;
      take_head(token + at * stride, stride, p.key_head_dim, true, p.token_dtype,
                c.query.data() + t * key_dims + at);
      take_head(token + (key_dims + at) * stride, stride, p.key_head_dim, true, p.token_dtype,
                c.key.data() + t * key_dims + at);
    }
    take_head(token + 2 * key_dims * stride, stride, value_dims, false, p.token_dtype,
              c.value.data() + t * value_dims);
  }
  return c;
}

}  // namespace gdn
