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

/// Value heads that the states of a launch belong to.
struct HeadGroup {
  int first = 0;
  int count = 0;
};

/// Of each chunk; P and T are those of docs/contract.md, section 2: P = lower(Q K^T * D), T = L^-1.
///
/// The chains keep S and D at the ends of tiles of `tile_chunks` chunks of a sequence. Where a tile is one
/// chunk, these are what the gradients read. Where it is more, stage_states.cuh makes them again inside the
/// tiles, for one group of heads after the other, whose gradients follow.
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
  HeadGroup heads;          ///< all of them where tiles are chunks
  float* states = nullptr;  ///< [heads.count, Kp, Vp]: S at the chunk's start
  float* d_states = nullptr;  ///< [heads.count, Kp, Vp]: D at the chunk's end
  int tile_chunks = 1;
  float* kept_states = nullptr;    ///< [Hv, Kp, Vp] of each tile: S at its start
  float* kept_d_states = nullptr;  ///< [Hv, Kp, Vp] of each tile: D at its end
};
/// Tiles that max_chunks chunks of so many sequences are at most counted as (tile_index).
inline std::int64_t max_tiles(std::int64_t max_chunks, std::int64_t num_sequences,
                              std::int64_t tile_chunks) {
  return tile_chunks == 1 ? max_chunks : max_chunks / tile_chunks + num_sequences;
}

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

/// Of the tile that holds chunk `c` of a sequence. Tiles are counted through all sequences: as chunks where
/// they are chunks, else with at most one number left out at a sequence's end.
__device__ __forceinline__ std::int64_t tile_index(const ChunkGradients& w, int sequence, int c) {
  const int first = w.forward.map.first_chunk[sequence];
  if (w.tile_chunks == 1) return first + c;
  return (first + c / w.tile_chunks * w.tile_chunks) / w.tile_chunks + sequence;
}

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
        state_index(static_cast<std::int64_t>(chunk) * w.heads.count + head - w.heads.first),
        w_(w) {}

  __device__ float* query() const { return w_.query + key_index * C * key_stride; }
  __device__ float* key() const { return w_.key + key_index * C * key_stride; }
  __device__ float* d_output() const { return w_.d_output + index * C * value_stride; }
  __device__ float* values() const { return w_.values + index * C * value_stride; }
  __device__ float* d_values() const { return w_.d_values + index * C * value_stride; }
  __device__ float* of_state() const { return w_.of_state + index * C * key_stride; }
  __device__ float* of_d_state() const { return w_.of_d_state + index * C * key_stride; }
  __device__ float* state() const { return w_.states + state_index * value_stride * key_stride; }
  __device__ float* d_state() const {
    return w_.d_states + state_index * value_stride * key_stride;
  }
  __device__ const ChunkGates<C>& gates() const { return *gates_at<C>(w_.forward, index); }

  const int head;
  const int key_stride;    ///< Kp
  const int value_stride;  ///< Vp
  const std::int64_t index;
  const std::int64_t key_index;
  const std::int64_t state_index;  ///< of heads of the launch's group alone

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
