#include "hip/gated_delta/arguments.h"

#include <limits>
#include <string>

#include "hip/dtype.h"
#include "interface/error.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn::hip {
namespace {

std::uint32_t stride_in_32_bits(std::int64_t stride, const char* operand) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (stride <= kMost) return static_cast<std::uint32_t>(stride);
  throw Error(ErrorKind::unsupported, std::string(operand) + ": tokens " + std::to_string(stride) +
                                          " elements apart; gfx906 takes at most " +
                                          std::to_string(kMost));
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
  return make_params(problem, gated_delta_arguments(problem, arguments));
}

GatedDeltaParams make_params(const Problem& problem, const GatedDeltaArguments& given) {
  GatedDeltaParams p{};
  p.query = given.query;
  p.key = given.key;
  p.value = given.value;
  p.output = given.output;
  p.query_token_stride = given.query_token_stride;
  p.key_token_stride = given.key_token_stride;
  p.value_token_stride = given.value_token_stride;
  p.gate_token_stride = stride_in_32_bits(given.gate.stride, gate_name(problem));
  p.beta_token_stride = stride_in_32_bits(given.beta.stride, beta_name(problem));
  p.gate_encoding = problem.gate_encoding;
  p.gate = static_cast<const float*>(given.gate.data);
  p.A_log = static_cast<const float*>(given.A_log.data);
  p.dt_bias = static_cast<const float*>(given.dt_bias.data);
  p.beta = static_cast<const float*>(given.beta.data);
  p.beta_encoding = problem.beta_encoding;
  p.decay_bound = static_cast<float>(problem.decay_bound);
  p.sequence_offsets = given.sequence_offsets;
  p.slot_index = given.slot_index;
  p.state_pool = given.state_pool;
  p.read_state = problem.initial_state != InitialState::absent ? 1 : 0;
  p.write_state = problem.final_state ? 1 : 0;
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
  const bool aligned = reinterpret_cast<std::uintptr_t>(given.checkpoint_states) % 16 == 0;
  p.packets = aligned && in_packets(p) ? 1 : 0;
  return p;
}

CheckpointParams make_checkpoint_params(const Problem& problem, const Arguments& arguments) {
  const GatedDeltaArguments given = gated_delta_arguments(problem, arguments);
  return {make_params(problem, arguments),
          {given.checkpoint_tokens, given.checkpoint_states,
           problem.state_row_stride() - problem.pool_row_padding,
           static_cast<std::int32_t>(problem.checkpoints),
           element_of(problem.effective_checkpoint_dtype()), given.rounding_seed}};
}

bool takes_checkpoint_params(const Problem& problem) {
  return problem.checkpoints > 0 || problem.state_rounding == StateRounding::stochastic;
}

std::size_t checkpoint_params_bytes(const Problem& problem) {
  return takes_checkpoint_params(problem) ? sizeof(CheckpointParams) : sizeof(GatedDeltaParams);
}

std::string checkpoint_prefix(const Problem& problem) {
  return takes_checkpoint_params(problem) ? "checkpoints_" : "";
}

}  // namespace gdn::hip
