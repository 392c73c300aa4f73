// Gradients that are sums over blocks: d_q and d_k over the value heads of a key head, those of gates and
// betas over the parts of a head, d_A_log and d_dt_bias over the batch. Whatever block makes a summand
// writes it to memory, and a kernel behind adds them in a fixed order: no atomics, the same bits always.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/gated_delta_backward/arguments.cuh"
#include "cuda/target.h"
#include "interface/problem.h"

namespace gdn::GDN_CUDA_TARGET {

/// Key channels that the sums are written for.
inline constexpr int kMostKeyChannels = 256;
/// Tokens whose parts of d_A_log and d_dt_bias one block adds up.
inline constexpr std::int64_t kTokensOfBatchSum = 128;

/// The summands of a call: of each token, value head and part of its value columns.
struct GradientParts {
  float* keys =
      nullptr;  ///< [parts, T, Hv, 2, Dk]: of the query and of the key as the recurrence has them
  float* gates =
      nullptr;  ///< [parts, T, Hv, 2]: of log_decay, with gate=decay of the decay; of beta. Then batch_sums()
  std::int64_t tokens = 0;  ///< T that the plan was made for
  std::int32_t parts = 1;

  static std::int64_t key_floats(const Problem& problem, std::int64_t parts) {
    return parts * problem.total_tokens() * problem.num_value_heads * 2 * problem.key_head_dim;
  }
  static std::int64_t gate_floats(const Problem& problem, std::int64_t parts) {
    constexpr std::int64_t kFloats = 2 * sizeof(double) / sizeof(float);
    return problem.num_value_heads *
           (parts * problem.total_tokens() * 2 + kFloats * blocks_of(problem.total_tokens()));
  }
  constexpr std::int64_t batch_sum_blocks() const { return blocks_of(tokens); }
  static constexpr std::int64_t blocks_of(std::int64_t tokens) {
    return (tokens + kTokensOfBatchSum - 1) / kTokensOfBatchSum;
  }
#ifdef __CUDACC__
  /// [blocks, Hv, 2]: of kTokensOfBatchSum tokens each, d_A_log and d_dt_bias.
  __device__ __forceinline__ double* batch_sums(const GatedDeltaParams& p) const {
    return reinterpret_cast<double*>(gates + std::int64_t{parts} * tokens * p.num_value_heads * 2);
  }
  /// The summands of a token and head: two times `width` of them.
  __device__ __forceinline__ std::int64_t index(const GatedDeltaParams& p, int part,
                                                std::int64_t token, int head, int width) const {
    return ((part * tokens + token) * p.num_value_heads + head) * 2 * width;
  }
#endif
};

/// Enqueues all sums: d_q, d_k, d_gate, d_beta, d_A_log and d_dt_bias from their parts, which are there
/// for every token that sequence_offsets counts.
void enqueue_gradient_sums(const BackwardParams& params, const GradientParts& parts,
                           cudaStream_t stream);
/// The same of what gates and betas are made of, alone.
void enqueue_gate_sums(const BackwardParams& params, const GradientParts& parts,
                       cudaStream_t stream);
/// Kernels that they launch.
int gate_sum_launches(const BackwardParams& params, const GradientParts& parts);
inline int gradient_sum_launches(const BackwardParams& params, const GradientParts& parts) {
  return (parts.tokens > 0 ? 1 : 0) + gate_sum_launches(params, parts);
}

}  // namespace gdn::GDN_CUDA_TARGET
