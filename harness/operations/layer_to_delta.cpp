#include "harness/operations/layer_to_delta.h"

#include <cmath>

#include "interface/error.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_layer.h"
#include "reference/causal_conv1d.h"
#include "reference/reference.h"

namespace gdn {
namespace {

constexpr double kNormEpsilon = 1e-6;  // docs/contract.md, section 1.1: sqrt(sum x^2 + 1e-6)

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
  if (layer.operation != gated_delta_layer_operation()) {
    throw_bad_input("layer_to_delta: the operation is " + to_string(layer.operation) +
                    ", expected gated_delta_layer");
  }
  Problem p = step_of(layer, gated_delta_operation());
  p.case_file = layer.case_file;
  p.normalize_qk = false;
  p.set_gate_encoding(GateEncoding::log_decay);
  p.beta_encoding = BetaEncoding::beta;
  return p;
}

Case layer_to_delta(const Case& layer) {
  Case c;
  c.problem = layer_to_delta(layer.problem);
  const Problem& p = c.problem;
  c.sequence_offsets = layer.sequence_offsets;
  c.slot_index = layer.slot_index;
  c["initial_state"] = layer["initial_state"];

  const auto gates = reference::decode_gates<double>(layer);
  c["log_decay"].assign(gates.log_decay.begin(), gates.log_decay.end());
  c["beta"].assign(gates.beta.begin(), gates.beta.end());

  const std::vector<double> channels = reference::causal_conv1d<double>(layer, 0).output;
  const bool by_time = layer.problem.conv_layout == ConvLayout::time;
  const std::int64_t token_stride = by_time ? 1 : p.conv_channels();
  const std::int64_t stride = by_time ? p.total_tokens() : 1;
  const std::int64_t key_dims = p.num_key_heads * p.key_head_dim;
  const std::int64_t value_dims = p.num_value_heads * p.value_head_dim;
  c["q"].resize(static_cast<std::size_t>(p.total_tokens() * key_dims));
  c["k"].resize(c["q"].size());
  c["v"].resize(static_cast<std::size_t>(p.total_tokens() * value_dims));
  float* query = c["q"].data();
  float* key = c["k"].data();
  float* value = c["v"].data();
  for (std::int64_t t = 0; t < p.total_tokens(); ++t) {
    const double* token = channels.data() + t * token_stride;
    for (std::int64_t h = 0; h < p.num_key_heads; ++h) {
      const std::int64_t at = h * p.key_head_dim;
      take_head(token + at * stride, stride, p.key_head_dim, true, p.token_dtype,
                query + t * key_dims + at);
      take_head(token + (key_dims + at) * stride, stride, p.key_head_dim, true, p.token_dtype,
                key + t * key_dims + at);
    }
    take_head(token + 2 * key_dims * stride, stride, value_dims, false, p.token_dtype,
              value + t * value_dims);
  }
  return c;
}

}  // namespace gdn
