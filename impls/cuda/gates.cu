#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/check.h"
#include "cuda/gates.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"
#include "interface/operations/gated_delta.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

// One thread per (token, head), consecutive threads on consecutive elements.
__global__ void gate_pass_kernel(GateParams params, IndexArray sequence_offsets,
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

}  // namespace

GateParams make_gate_params(const Problem& problem, const GatedDeltaArguments& arguments) {
  GateParams params;
  params.gate_encoding = problem.gate_encoding;
  params.beta_encoding = problem.beta_encoding;
  params.decay_bound = static_cast<float>(problem.decay_bound);
  params.num_value_heads = static_cast<std::int32_t>(problem.num_value_heads);
  params.gates_per_head = static_cast<std::int32_t>(problem.gates_per_head());
  params.gate = arguments.gate;
  params.A_log = arguments.A_log;
  params.dt_bias = arguments.dt_bias;
  params.beta = arguments.beta;
  return params;
}

void enqueue_gate_pass(const GateParams& params, IndexArray sequence_offsets,
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

}  // namespace gdn::GDN_CUDA_TARGET
