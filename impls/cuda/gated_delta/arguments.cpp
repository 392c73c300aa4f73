#include "cuda/gated_delta/arguments.cuh"

#include <string>

#include "cuda/require.h"
#include "cuda/target.h"
#include "interface/error.h"
#include "interface/operations/gated_delta.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

void require_vectors(const void* pointer, std::int64_t stride, std::int64_t head_dim,
                     std::int64_t element, std::int64_t bytes, const char* name) {
  require_pointer(pointer, bytes, name);
  if (stride * element % bytes != 0 || head_dim * element % bytes != 0) {
    throw_bad_input(std::string(name) + ": tokens " + std::to_string(stride) +
                    " elements apart and heads " + std::to_string(head_dim) +
                    " elements apart are not multiples of " + std::to_string(bytes) + " bytes");
  }
}

}  // namespace

GatedDeltaParams make_params(const Problem& problem, const Arguments& arguments) {
  return make_params(problem, gated_delta_arguments(problem, arguments));
}

GatedDeltaParams make_params(const Problem& problem, const GatedDeltaArguments& given) {
  GatedDeltaParams p;
  p.query = given.query;
  p.key = given.key;
  p.value = given.value;
  p.output = given.output;
  p.output_dtype = problem.effective_output_dtype();
  p.query_token_stride = given.query_token_stride;
  p.key_token_stride = given.key_token_stride;
  p.value_token_stride = given.value_token_stride;
  p.gates = make_gate_params(problem, given);
  p.sequence_offsets = given.sequence_offsets;
  p.slot_index = given.slot_index;
  p.output_slot_index = given.output_slot_index;

  p.pool.data = given.state_pool;
  p.pool.dtype = problem.state_dtype;
  p.pool.layout = problem.state_layout;
  p.pool.key_head_dim = static_cast<std::int32_t>(problem.key_head_dim);
  p.pool.value_head_dim = static_cast<std::int32_t>(problem.value_head_dim);
  p.pool.row_stride = problem.state_row_stride();
  p.pool.read = problem.initial_state != InitialState::absent;
  p.pool.write = problem.final_state;

  p.checkpoints.count = static_cast<std::int32_t>(problem.checkpoints);
  p.checkpoints.tokens = given.checkpoint_tokens;
  p.checkpoints.states = p.pool;
  p.checkpoints.states.data = given.checkpoint_states;
  p.checkpoints.states.dtype = problem.effective_checkpoint_dtype();
  p.checkpoints.states.row_stride = problem.state_row_stride() - problem.pool_row_padding;
  p.checkpoints.states.read = false;
  p.checkpoints.states.write = true;

  p.num_sequences = static_cast<std::int32_t>(problem.num_sequences());
  p.num_key_heads = static_cast<std::int32_t>(problem.num_key_heads);
  p.num_value_heads = static_cast<std::int32_t>(problem.num_value_heads);
  p.value_heads_per_key_head = static_cast<std::int32_t>(problem.value_heads_per_key_head());
  p.key_head_dim = static_cast<std::int32_t>(problem.key_head_dim);
  p.value_head_dim = static_cast<std::int32_t>(problem.value_head_dim);
  p.scale = static_cast<float>(problem.effective_scale());
  p.normalize_qk = problem.normalize_qk;
  p.additive_update = problem.update == UpdateRule::additive;
  p.channel_decay = problem.decay == DecayPer::channel;
  p.steps = static_cast<std::int32_t>(problem.steps);
  return p;
}

Alignment token_alignment() { return {{"q", "k", "v", "output"}, 16}; }

void require_token_alignment(const GatedDeltaParams& p, DType token_dtype, std::int64_t bytes) {
  const auto element = static_cast<std::int64_t>(size_of(token_dtype));
  if (p.query == nullptr) return;  // no tokens
  require_vectors(p.query, p.query_token_stride, p.key_head_dim, element, bytes, "q");
  require_vectors(p.key, p.key_token_stride, p.key_head_dim, element, bytes, "k");
  require_vectors(p.value, p.value_token_stride, p.value_head_dim, element, bytes, "v");
}

}  // namespace gdn::GDN_CUDA_TARGET
