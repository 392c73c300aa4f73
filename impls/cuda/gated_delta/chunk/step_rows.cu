#include <algorithm>

#include "cuda/gated_delta/chunk/step_rows.cuh"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr int kThreads = 256;

/// Elements of one step.
__host__ __device__ std::int64_t key_row(const GatedDeltaParams& p) {
  return std::int64_t{p.num_key_heads} * p.key_head_dim;
}
__host__ __device__ std::int64_t value_row(const GatedDeltaParams& p) {
  return std::int64_t{p.num_value_heads} * p.value_head_dim;
}

/// The threads of a grid, each with every `stride`-th of some items.
struct GridStride {
  std::int64_t first, stride;
};

/// Tokens of `width` units, `token_stride` apart, one behind the other.
template <typename Unit>
__device__ __forceinline__ void copy_tokens(const GridStride& mine, const void* from,
                                            std::int64_t token_stride, std::int64_t width,
                                            std::int64_t num_tokens, void* to) {
  if (to == nullptr) return;
  for (std::int64_t i = mine.first; i < num_tokens * width; i += mine.stride) {
    static_cast<Unit*>(to)[i] =
        static_cast<const Unit*>(from)[i / width * token_stride + i % width];
  }
}

/// One thread per sequence, then per (row, value head), then per 16 bytes of what is copied.
__global__ void __launch_bounds__(kThreads)
    step_rows_kernel(const GatedDeltaParams tokens, const StepRows rows, std::int64_t element_bytes,
                     std::int64_t token_capacity) {
  const int Hv = tokens.num_value_heads;
  const int rows_of_token = rows.per_token > 0 ? rows.per_token : tokens.steps;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t n = first; n <= tokens.num_sequences; n += stride) {
    rows.sequence_offsets[n] = tokens.sequence_offsets[n] * rows_of_token;
  }
  const std::int64_t num_tokens =
      min(tokens.sequence_offsets[tokens.num_sequences], token_capacity);
  for (std::int64_t i = first; i < num_tokens * rows_of_token * Hv; i += stride) {
    const std::int64_t row = i / Hv, token = row / rows_of_token;
    const int row_of_token = static_cast<int>(row % rows_of_token), head = static_cast<int>(i % Hv);
    rows.log_decay[i] = row_of_token == 0 ? log_decay_of(tokens.gates, token, head) : 0.0f;
    if (rows.beta == nullptr) continue;
    const int step = row_of_token - (rows_of_token - tokens.steps);
    rows.beta[i] = step >= 0 ? decode_beta(tokens.gates,
                                           load_number(tokens.gates.beta, token, step * Hv + head))
                             : 0.0f;
  }
  const GridStride mine = {first, stride};
  const std::int64_t elements = 16 / element_bytes;  // in a unit of 16 bytes
  copy_tokens<uint4>(mine, tokens.key, tokens.key_token_stride / elements,
                     key_row(tokens) * tokens.steps / elements, num_tokens, rows.key);
  copy_tokens<uint4>(mine, tokens.value, tokens.value_token_stride / elements,
                     value_row(tokens) * tokens.steps / elements, num_tokens, rows.value);
}

}  // namespace

bool keys_are_rows(const GatedDeltaParams& tokens) {
  return tokens.key_token_stride == key_row(tokens) * tokens.steps;
}

bool values_are_rows(const GatedDeltaParams& tokens) {
  return tokens.value_token_stride == value_row(tokens) * tokens.steps;
}

bool betas_are_rows(const GatedDeltaParams& tokens) {
  return tokens.gates.beta.is_dense(std::int64_t{tokens.steps} * tokens.num_value_heads);
}

GatedDeltaParams params_of_step_rows(const GatedDeltaParams& tokens, const StepRows& rows) {
  GatedDeltaParams p = tokens;
  p.key_token_stride = key_row(tokens);
  p.value_token_stride = value_row(tokens);
  if (rows.key != nullptr) p.key = rows.key;
  if (rows.value != nullptr) p.value = rows.value;
  p.sequence_offsets = rows.sequence_offsets;
  p.gates.gate_encoding = GateEncoding::log_decay;
  p.gates.gate = {.data = rows.log_decay, .stride = tokens.num_value_heads};
  if (rows.beta != nullptr) p.gates.beta_encoding = BetaEncoding::beta;
  p.gates.beta = {.data = rows.beta != nullptr ? rows.beta : tokens.gates.beta.data,
                  .stride = tokens.num_value_heads};
  return p;
}

void enqueue_step_rows(const GatedDeltaParams& tokens, const StepRows& rows,
                       std::int64_t element_bytes, std::int64_t token_capacity,
                       cudaStream_t stream) {
  const std::int64_t count =
      std::max<std::int64_t>(token_capacity * tokens.steps * tokens.num_value_heads,
                             std::int64_t{tokens.num_sequences} + 1);
  const auto blocks =
      static_cast<unsigned int>(std::min<std::int64_t>((count + kThreads - 1) / kThreads, 1 << 16));
  launch_kernel(step_rows_kernel, blocks, kThreads, 0, stream, tokens, rows, element_bytes,
                token_capacity);
}

}  // namespace gdn::GDN_CUDA_TARGET
