#include "hip/gated_delta/arguments.h"

#include "hip/require.h"
#include "interface/error.h"

namespace gdn::hip {
namespace {

std::int64_t token_stride(std::int64_t given, std::int64_t dense, const std::string& name) {
  if (given == 0) return dense;
  if (given < dense) {
    throw_bad_input(name + ": token stride " + std::to_string(given) +
                    " is smaller than a token's " + std::to_string(dense) + " elements");
  }
  return given;
}

const float* gate_values(const Problem& problem, const Gate& gate, GatedDeltaParams& params) {
  const auto mismatch = [&]() {
    throw_bad_input("gate: the arguments hold another encoding than the problem's");
  };
  switch (problem.gate_encoding) {
    case GateEncoding::log_decay:
      params.gate_input = GateInput::log_decay;
      if (const auto* typed = std::get_if<LogDecay>(&gate)) return typed->values;
      break;
    case GateEncoding::decay:
      params.gate_input = GateInput::decay;
      if (const auto* typed = std::get_if<Decay>(&gate)) return typed->values;
      break;
    case GateEncoding::neg_log_decay:
      params.gate_input = GateInput::neg_log_decay;
      if (const auto* typed = std::get_if<NegLogDecay>(&gate)) return typed->values;
      break;
    case GateEncoding::logits:
      params.gate_input = GateInput::logits;
      if (const auto* typed = std::get_if<DecayLogits>(&gate)) {
        require_pointer(typed->A_log, 4, "A_log");
        require_pointer(typed->dt_bias, 4, "dt_bias");
        params.A_log = typed->A_log;
        params.dt_bias = typed->dt_bias;
        return typed->values;
      }
      break;
  }
  mismatch();
  return nullptr;
}

const float* beta_values(const Problem& problem, const Beta& beta) {
  if (problem.beta_encoding == BetaEncoding::beta) {
    if (const auto* typed = std::get_if<BetaDirect>(&beta)) return typed->values;
  } else if (const auto* typed = std::get_if<BetaLogit>(&beta)) {
    return typed->values;
  }
  throw_bad_input("beta: the arguments hold another encoding than the problem's");
}

/// GatedDeltaParams::packets.
bool in_packets(const GatedDeltaParams& p) {
  for (const void* array : {p.query, p.key, p.value, static_cast<const void*>(p.output),
                            static_cast<const void*>(p.state_pool)}) {
    if (reinterpret_cast<std::uintptr_t>(array) % 16 != 0) return false;
  }
  for (const std::int64_t elements :
       {p.query_token_stride, p.key_token_stride, p.value_token_stride, p.state_row_stride,
        std::int64_t{p.key_head_dim}, std::int64_t{p.value_head_dim}}) {
    if (elements % 8 != 0) return false;
  }
  return true;
}

}  // namespace

std::string kernel_suffix(DType token_dtype) { return short_name(token_dtype); }

GatedDeltaParams make_params(const Problem& problem, const Arguments& arguments) {
  const auto* given = std::get_if<GatedDeltaArguments>(&arguments);
  if (given == nullptr) throw_bad_input("arguments: those of gated_delta are expected");
  const std::int64_t key_elements = problem.num_key_heads * problem.key_head_dim;
  const std::int64_t value_elements = problem.num_value_heads * problem.value_head_dim;
  GatedDeltaParams p{};
  p.query = given->query;
  p.key = given->key;
  p.value = given->value;
  p.output = given->output;
  p.query_token_stride = token_stride(given->query_token_stride, key_elements, "q");
  p.key_token_stride = token_stride(given->key_token_stride, key_elements, "k");
  p.value_token_stride = token_stride(given->value_token_stride, value_elements, "v");
  p.gate = gate_values(problem, given->gate, p);
  p.beta = beta_values(problem, given->beta);
  p.beta_is_logit = problem.beta_encoding == BetaEncoding::logit ? 1 : 0;
  if (problem.total_tokens() > 0) {
    const std::size_t token_bytes = size_of(problem.token_dtype);
    require_pointer(p.query, token_bytes, "q");
    require_pointer(p.key, token_bytes, "k");
    require_pointer(p.value, token_bytes, "v");
    require_pointer(p.output, size_of(problem.effective_output_dtype()), "output");
    require_pointer(p.gate, 4, "gate");
    require_pointer(p.beta, 4, "beta");
  }
  require_pointer(given->sequence_offsets, 8, "sequence_offsets");
  p.sequence_offsets = given->sequence_offsets;
  if (problem.slots != SlotMap::identity) require_pointer(given->slot_index, 8, "slot_index");
  p.slot_index = given->slot_index;
  p.state_pool = given->state_pool;
  p.read_state = problem.initial_state != InitialState::absent ? 1 : 0;
  p.write_state = problem.final_state ? 1 : 0;
  if (p.read_state != 0 || p.write_state != 0) {
    require_pointer(p.state_pool, size_of(problem.state_dtype), "state_pool");
  }
  p.state_row_stride = problem.state_row_stride();
  const bool key_major = problem.state_layout == StateLayout::kv;
  p.state_key_stride = static_cast<std::int32_t>(key_major ? problem.value_head_dim : 1);
  p.state_value_stride = static_cast<std::int32_t>(key_major ? 1 : problem.key_head_dim);
  p.num_sequences = static_cast<std::int32_t>(problem.num_sequences());
  p.num_value_heads = static_cast<std::int32_t>(problem.num_value_heads);
  p.key_head_dim = static_cast<std::int32_t>(problem.key_head_dim);
  p.value_head_dim = static_cast<std::int32_t>(problem.value_head_dim);
  const auto group = static_cast<std::uint64_t>(problem.value_heads_per_key_head());
  p.group_reciprocal =
      group == 1 ? 0 : static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + group - 1) / group);
  p.token_element = element_of(problem.token_dtype);
  p.state_element = element_of(problem.state_dtype);
  p.output_element = element_of(problem.effective_output_dtype());
  p.normalize_qk = problem.normalize_qk ? 1 : 0;
  p.scale = static_cast<float>(problem.effective_scale());
  p.packets = in_packets(p) ? 1 : 0;
  return p;
}

}  // namespace gdn::hip
