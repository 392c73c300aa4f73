// What the stages of cuda/chunkwise of gated_delta_backward hand to each other through device memory, and
// what they share. All matrices are float32 and row-major, in tiles of C tokens, Kp = 16 ceil(Dk / 16) key
// channels and Vp = 16 ceil(Dv / 16) columns; rows behind a sequence's end and columns past Dk and Dv are
// zeros, so that no product asks where they end.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/gated_delta/chunk/chunkwise_workspace.cuh"
#include "cuda/gated_delta_backward/arguments.cuh"
#include "cuda/gated_delta_backward/sums.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Of each chunk; P and T are those of docs/contract.md, section 2: P = lower(Q K^T * D), T = L^-1.
struct ChunkGradients {
  ChunkwiseWorkspace forward;  ///< its map, norms and gates alone
  float* query = nullptr;      ///< [Hk, C, Kp]: q as the recurrence has it, times scale
  float* key = nullptr;        ///< [Hk, C, Kp]: likewise, without the scale
  float* d_output = nullptr;   ///< [Hv, C, Vp]
  float* values = nullptr;     ///< [Hv, C, Vp]: V, then U = T diag(beta) V, then V'
  float* d_values = nullptr;   ///< [Hv, C, Vp]: T^T P^T dO, then Y = T^T dV'
  float* of_state = nullptr;   ///< [Hv, C, Kp]: -T diag(beta gamma) K, V' by the state before
  float* of_d_state =
      nullptr;              ///< [Hv, C, Kp]: T^T diag(gamma_C / gamma) K, Y by the gradient behind
  float* states = nullptr;  ///< [Hv, Kp, Vp]: S at the chunk's start
  float* d_states = nullptr;  ///< [Hv, Kp, Vp]: D at the chunk's end
};

/// The launches for one chunk size, instantiated in chunkwise_*.cu. The gradients' sums come behind.
struct ChunkGradientsLaunch {
  BackwardParams params;
  ChunkGradients chunks;
  GradientParts parts;
};
template <int C>
void configure_chunk_gradients(const ChunkGradientsLaunch& launch);
template <int C>
void enqueue_chunk_gradients(const ChunkGradientsLaunch& launch, cudaStream_t stream);

#ifdef __CUDACC__

/// A chunk and value head, and its tiles.
template <int C>
struct ChunkTiles {
  __device__ __forceinline__ ChunkTiles(const GatedDeltaParams& p, const ChunkGradients& w,
                                        int chunk, int head)
      : head(head),
        key_stride(16 * blocks_of_16(p.key_head_dim)),
        value_stride(16 * blocks_of_16(p.value_head_dim)),
        index(chunk_head(p, chunk, head)),
        key_index(static_cast<std::int64_t>(chunk) * p.num_key_heads +
                  head / p.value_heads_per_key_head),
        w_(w) {}

  __device__ float* query() const { return w_.query + key_index * C * key_stride; }
  __device__ float* key() const { return w_.key + key_index * C * key_stride; }
  __device__ float* d_output() const { return w_.d_output + index * C * value_stride; }
  __device__ float* values() const { return w_.values + index * C * value_stride; }
  __device__ float* d_values() const { return w_.d_values + index * C * value_stride; }
  __device__ float* of_state() const { return w_.of_state + index * C * key_stride; }
  __device__ float* of_d_state() const { return w_.of_d_state + index * C * key_stride; }
  __device__ float* state() const { return w_.states + index * value_stride * key_stride; }
  __device__ float* d_state() const { return w_.d_states + index * value_stride * key_stride; }
  __device__ const ChunkGates<C>& gates() const { return *gates_at<C>(w_.forward, index); }

  const int head;
  const int key_stride;    ///< Kp
  const int value_stride;  ///< Vp
  const std::int64_t index;
  const std::int64_t key_index;

 private:
  const ChunkGradients& w_;
};

/// Column c of the block times factors[c].
__device__ __forceinline__ void scale_columns(Fragment<float>& block, const float* factors,
                                              int lane) {
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    block.pair[q].x *= factors[fragment_column(lane, 2 * q)];
    block.pair[q].y *= factors[fragment_column(lane, 2 * q + 1)];
  }
}

/// tile[row + r][column + c] = block[r][c].
__device__ __forceinline__ void store_block(float* tile, int stride, int row, int column,
                                            const Accumulator& block, int lane) {
#pragma unroll
  for (int e = 0; e < 8; e += 2) {
    *reinterpret_cast<float2*>(tile + (row + fragment_row(lane, e)) * stride + column +
                               fragment_column(lane, e)) =
        make_float2(block.value[e], block.value[e + 1]);
  }
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
