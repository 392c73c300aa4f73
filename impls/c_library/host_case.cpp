#include "c_library/host_case.h"

#include <limits>
#include <string>

#include "interface/error.h"

namespace gdn::c_library {
namespace {

void require_array(const void* array, const char* name) {
  if (array == nullptr) throw_bad_input(std::string(name) + ": is null, an array was expected");
}

/// [tokens, width] elements, `stride` from one token to the next (0: dense), as floats.
std::vector<float> widened(const void* array, DType dtype, std::int64_t tokens, std::int64_t width,
                           std::int64_t stride, const char* name) {
  std::vector<float> values(static_cast<std::size_t>(tokens * width));
  if (values.empty()) return values;
  require_array(array, name);
  if (stride != 0 && stride < width) {
    throw_bad_input(std::string(name) + ": token stride " + std::to_string(stride) +
                    " is smaller than a token's " + std::to_string(width) + " elements");
  }
  const auto bytes = static_cast<std::int64_t>(size_of(dtype)) * (stride == 0 ? width : stride);
  for (std::int64_t token = 0; token < tokens; ++token) {
    decode(dtype, static_cast<const char*>(array) + token * bytes, &values[token * width], width);
  }
  return values;
}

std::vector<float> floats(const float* array, std::int64_t count, const char* name) {
  return widened(array, DType::float32, 1, count, 0, name);
}

GateValues gate_values(const Problem& p, const Gate& gate) {
  const std::int64_t count = p.total_tokens() * p.gates_per_token();
  GateValues values;
  values.encoding = p.gate_encoding;
  if (const auto* logits = std::get_if<DecayLogits>(&gate)) {
    values.values = floats(logits->values, count, "gate");
    values.A_log = floats(logits->A_log, p.num_value_heads, "A_log");
    values.dt_bias = floats(logits->dt_bias, p.gates_per_token(), "dt_bias");
    return values;
  }
  const float* array = nullptr;
  if (const auto* g = std::get_if<LogDecay>(&gate)) array = g->values;
  if (const auto* g = std::get_if<Decay>(&gate)) array = g->values;
  if (const auto* g = std::get_if<NegLogDecay>(&gate)) array = g->values;
  values.values = floats(array, count, "gate");
  return values;
}

BetaValues beta_values(const Problem& p, const Beta& beta) {
  const auto* direct = std::get_if<BetaDirect>(&beta);
  const float* array = direct != nullptr ? direct->values : std::get<BetaLogit>(beta).values;
  return {p.beta_encoding, floats(array, p.total_tokens() * p.betas_per_token(), "beta")};
}

}  // namespace

Case host_case(const Problem& problem, const GatedDeltaArguments& arguments) {
  const Problem& p = problem;
  if (p.slots != SlotMap::identity || arguments.slot_index != nullptr) {
    throw Error(ErrorKind::unsupported, "float64 reference: slots are not done here");
  }
  const std::int64_t tokens = p.total_tokens();
  const std::int64_t query_width = p.num_key_heads * p.key_head_dim;
  Case result;
  result.problem = p;
  require_array(arguments.sequence_offsets, "sequence_offsets");
  result.sequence_offsets.assign(arguments.sequence_offsets,
                                 arguments.sequence_offsets + p.num_sequences() + 1);
  result.query = widened(arguments.query, p.token_dtype, tokens, query_width,
                         arguments.query_token_stride, "query");
  result.key = widened(arguments.key, p.token_dtype, tokens, p.keys_per_token(),
                       arguments.key_token_stride, "key");
  result.value = widened(arguments.value, p.token_dtype, tokens, p.values_per_token(),
                         arguments.value_token_stride, "value");
  result.gate = gate_values(p, arguments.gate);
  result.beta = beta_values(p, arguments.beta);
  const std::int64_t rows = p.num_sequences();
  if (p.initial_state == InitialState::absent) {
    result.state_pool.assign(static_cast<std::size_t>(rows * p.state_row_stride()),
                             std::numeric_limits<float>::quiet_NaN());
  } else {
    result.state_pool =
        widened(arguments.state_pool, p.state_dtype, rows, p.state_row_stride(), 0, "state_pool");
  }
  validate(result);
  return result;
}

}  // namespace gdn::c_library
