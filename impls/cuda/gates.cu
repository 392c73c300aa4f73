#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/check.h"
#include "cuda/gates.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/require.h"

namespace gdn::cuda {
namespace {

// One thread per (token, head), consecutive threads on consecutive elements.
__global__ void gate_pass_kernel(GateParams params, const std::int64_t* sequence_offsets,
                                 std::int64_t num_sequences, std::int64_t token_capacity,
                                 float* log_decay, float* beta) {
  const std::int64_t tokens = min(sequence_offsets[num_sequences], token_capacity);
  const std::int64_t count = tokens * params.num_value_heads;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const std::int64_t token = i / params.num_value_heads;
    const int head = static_cast<int>(i % params.num_value_heads);
    if (log_decay != nullptr) log_decay[i] = log_decay_of(params, token, head);
    if (beta != nullptr) beta[i] = beta_of(params, token, head);
  }
}

void require_encoding(bool same, const char* what) {
  if (!same) {
    throw_bad_input(std::string(what) +
                    " is the problem's encoding; the array given holds another");
  }
}

}  // namespace

GateParams make_gate_params(const Problem& problem, const Gate& gate, const Beta& beta) {
  GateParams params;
  params.gate_encoding = problem.gate_encoding;
  params.beta_encoding = problem.beta_encoding;
  params.num_value_heads = static_cast<std::int32_t>(problem.num_value_heads);
  params.gates_per_head = static_cast<std::int32_t>(problem.gates_per_head());
  switch (problem.gate_encoding) {
    case GateEncoding::log_decay:
      require_encoding(std::holds_alternative<LogDecay>(gate), "gate: log_decay");
      params.gate = std::get<LogDecay>(gate).values;
      break;
    case GateEncoding::decay:
      require_encoding(std::holds_alternative<Decay>(gate), "gate: decay");
      params.gate = std::get<Decay>(gate).values;
      break;
    case GateEncoding::neg_log_decay:
      require_encoding(std::holds_alternative<NegLogDecay>(gate), "gate: neg_log_decay");
      params.gate = std::get<NegLogDecay>(gate).values;
      break;
    case GateEncoding::logits: {
      require_encoding(std::holds_alternative<DecayLogits>(gate), "gate: decay_logit");
      const auto& logits = std::get<DecayLogits>(gate);
      params.gate = logits.values;
      params.A_log = logits.A_log;
      params.dt_bias = logits.dt_bias;
      require_pointer(params.A_log, 4, "A_log");
      require_pointer(params.dt_bias, 4, "dt_bias");
      break;
    }
  }
  const bool has_tokens = problem.total_tokens() > 0;
  if (has_tokens) require_pointer(params.gate, 4, "gate");
  if (problem.beta_encoding == BetaEncoding::beta) {
    require_encoding(std::holds_alternative<BetaDirect>(beta), "beta: beta");
    params.beta = std::get<BetaDirect>(beta).values;
  } else {
    require_encoding(std::holds_alternative<BetaLogit>(beta), "beta: beta_logit");
    params.beta = std::get<BetaLogit>(beta).values;
  }
  if (has_tokens) require_pointer(params.beta, 4, "beta");
  return params;
}

void enqueue_gate_pass(const GateParams& params, const std::int64_t* sequence_offsets,
                       std::int64_t num_sequences, std::int64_t token_capacity, float* log_decay,
                       float* beta, cudaStream_t stream) {
  constexpr int kThreads = 256;
  const std::int64_t count = token_capacity * params.num_value_heads;
  if (count == 0) return;
  const auto blocks =
      static_cast<unsigned int>(std::min<std::int64_t>((count + kThreads - 1) / kThreads, 1 << 16));
  launch_kernel(gate_pass_kernel, blocks, kThreads, 0, stream, params, sequence_offsets,
                num_sequences, token_capacity, log_decay, beta);
}

}  // namespace gdn::cuda
