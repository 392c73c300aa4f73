#include <algorithm>
#include <string>

#include "cuda/gated_delta/chunk/step_rows.cuh"
#include "cuda/launch_kernel.cuh"
#include "interface/error.h"

namespace gdn::cuda {
namespace {

constexpr int kThreads = 256;

/// One thread per sequence, then per (row, value head).
__global__ void __launch_bounds__(kThreads)
    step_rows_kernel(const GatedDeltaParams tokens, const StepRows rows,
                     std::int64_t token_capacity) {
  const int Hv = tokens.num_value_heads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t n = first; n <= tokens.num_sequences; n += stride) {
    rows.sequence_offsets[n] = tokens.sequence_offsets[n] * tokens.steps;
  }
  const std::int64_t num_tokens =
      min(tokens.sequence_offsets[tokens.num_sequences], token_capacity);
  for (std::int64_t i = first; i < num_tokens * tokens.steps * Hv; i += stride) {
    const std::int64_t row = i / Hv;
    rows.log_decay[i] = row % tokens.steps == 0 ? log_decay_of(tokens.gates, row / tokens.steps,
                                                               static_cast<int>(i % Hv))
                                                : 0.0f;
  }
}

void require_dense(std::int64_t stride, std::int64_t dense, const char* name) {
  if (stride == dense) return;
  throw Error(ErrorKind::unsupported, std::string(name) + ": tokens " + std::to_string(stride) +
                                          " elements apart; with several steps per token they are "
                                          "taken only where nothing lies between them (" +
                                          std::to_string(dense) + ")");
}

}  // namespace

GatedDeltaParams params_of_step_rows(const GatedDeltaParams& tokens, const StepRows& rows) {
  GatedDeltaParams p = tokens;
  p.key_token_stride = std::int64_t{tokens.num_key_heads} * tokens.key_head_dim;
  p.value_token_stride = std::int64_t{tokens.num_value_heads} * tokens.value_head_dim;
  require_dense(tokens.key_token_stride, tokens.steps * p.key_token_stride, "k");
  require_dense(tokens.value_token_stride, tokens.steps * p.value_token_stride, "v");
  p.sequence_offsets = rows.sequence_offsets;
  p.gates.gate_encoding = GateEncoding::log_decay;
  p.gates.gate = rows.log_decay;
  return p;
}

void enqueue_step_rows(const GatedDeltaParams& tokens, const StepRows& rows,
                       std::int64_t token_capacity, cudaStream_t stream) {
  const std::int64_t count =
      std::max<std::int64_t>(token_capacity * tokens.steps * tokens.num_value_heads,
                             std::int64_t{tokens.num_sequences} + 1);
  const auto blocks =
      static_cast<unsigned int>(std::min<std::int64_t>((count + kThreads - 1) / kThreads, 1 << 16));
  launch_kernel(step_rows_kernel, blocks, kThreads, 0, stream, tokens, rows, token_capacity);
}

}  // namespace gdn::cuda
