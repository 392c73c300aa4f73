// Rows of the gated norm (a token's value head each), as kernels of it and of its gradients read
// them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/activation.cuh"
#include "cuda/target.h"
#include "interface/operations/gated_rms_norm.h"
#include "interface/problem.h"

namespace gdn::GDN_CUDA_TARGET {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarp = 32;

/// The inputs of the norm.
struct NormRows {
  const void* x = nullptr;       ///< [T, Hv, Dv], token dtype
  const void* z = nullptr;       ///< likewise
  const void* weight = nullptr;  ///< [Dv]
  IndexArray sequence_offsets;
  std::int64_t num_sequences = 0;
  std::int64_t x_token_stride = 0;  ///< elements
  std::int64_t z_token_stride = 0;
  std::int32_t num_value_heads = 1;
  std::int32_t width = 1;  ///< Dv
  float eps = 0;
  NormGate gate = NormGate::silu;
};

/// Host.
inline NormRows norm_rows(const Problem& problem, const GatedRmsNormArguments& arguments) {
  return {.x = arguments.x,
          .z = arguments.z,
          .weight = arguments.weight,
          .sequence_offsets = arguments.sequence_offsets,
          .num_sequences = problem.num_sequences(),
          .x_token_stride = arguments.x_token_stride,
          .z_token_stride = arguments.z_token_stride,
          .num_value_heads = static_cast<std::int32_t>(problem.num_value_heads),
          .width = static_cast<std::int32_t>(problem.value_head_dim),
          .eps = static_cast<float>(problem.norm_eps),
          .gate = problem.norm_gate};
}

#ifdef __CUDACC__

/// How many rows there are, as the offsets have it now.
__device__ __forceinline__ std::int64_t norm_row_count(const NormRows& p) {
  return p.sequence_offsets[p.num_sequences] * p.num_value_heads;
}

/// A row, and whether there is one.
struct NormRow {
  std::int64_t first;     ///< its first element in a dense array
  std::int64_t token;     ///< and what it is of
  std::int64_t in_token;  ///< elements before it in its token
  bool exists;

  /// Its first element in an array of this token stride.
  __device__ __forceinline__ std::int64_t at(std::int64_t token_stride) const {
    return token * token_stride + in_token;
  }
};
__device__ __forceinline__ NormRow norm_row(const NormRows& p, std::int64_t row) {
  // A division in 64 bits takes as long as half the rest of a row of 128.
  const std::int64_t token = row >> 32 == 0 ? static_cast<std::uint32_t>(row) /
                                                  static_cast<std::uint32_t>(p.num_value_heads)
                                            : row / p.num_value_heads;
  return {row * p.width, token, (row - token * p.num_value_heads) * p.width,
          row < norm_row_count(p)};
}

/// Of the row whose squares add up to `squares`: what its elements are multiplied by.
__device__ __forceinline__ float row_scale(const NormRows& p, float squares) {
  return 1.0f / sqrtf(squares / static_cast<float>(p.width) + p.eps);
}

/// What an element is multiplied by, of outputs in the type Output.
template <typename Output>
__device__ __forceinline__ float gate_of(NormGate gate, float z) {
  const float s = sigmoid_for<Output>(z);
  if (gate == NormGate::silu) return z * s;
  return gate == NormGate::sigmoid ? s : 2.0f * s;
}

/// Over groups of `Lanes` lanes; every lane of the warp takes part.
template <int Lanes>
__device__ __forceinline__ float sum_over(float x) {
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(kAllLanes, x, offset);
  }
  return x;
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
