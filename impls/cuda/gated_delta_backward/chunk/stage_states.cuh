// The states of each chunk inside the tiles whose ends the chains have kept (chunk_gradients.cuh), for a group
// of heads: the steps of the chains once more, from the rows V' and Y that they left, so that the bits are
// the same:
//
//     forwards    S <- gamma_C S + (diag(gamma_C / gamma) K)^T V'
//     backwards   D <- gamma_C D + (diag(gamma) Q)^T dO - (diag(beta gamma) K)^T Y
//
// A block for 16 columns of S or of D of a tile; the tiles need not wait for each other.
//
// Bound by: memory, of the states that it writes.
#pragma once

#include "cuda/gated_delta_backward/chunk/chunk_gradients.cuh"
#include "cuda/gated_delta_backward/chunk/stage_chains.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

constexpr int kStateBlocks = 3;  ///< that share a multiprocessor; of four, registers are spilled

template <int C>
__global__ void __launch_bounds__(kChainThreads, kStateBlocks)
    backward_states_kernel(const BackwardParams backward, const ChunkGradients w) {
  constexpr int kAddedStride = tile_stride(C);
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  const GatedDeltaParams& p = backward.forward;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int value_blocks = blocks_of_16(p.value_head_dim);
  const bool back = blockIdx.x % 2 == 1;
  const unsigned int item = blockIdx.x / 2;
  const int column = 16 * static_cast<int>(item % value_blocks);
  const int head = w.heads.first + static_cast<int>(item / value_blocks % w.heads.count);
  const int chunk = static_cast<int>(item / value_blocks / w.heads.count);
  const ChunkSpan span = chunk_span<C>(p, w.forward.map, chunk);
  if (span.length == 0 || span.padding) return;
  const int sequence = w.forward.map.sequence[chunk];
  const int first = chunk - w.forward.map.first_chunk[sequence];  // of the sequence's chunks
  if (first % w.tile_chunks != 0) return;
  const int left = w.forward.map.first_chunk[sequence + 1] - chunk;
  const int num_chunks = left < w.tile_chunks ? left : w.tile_chunks;
  const int key_stride = 16 * blocks_of_16(p.key_head_dim);
  const int value_stride = 16 * value_blocks;
  const int state_stride = tile_stride(key_stride);
  float* const state = reinterpret_cast<float*>(shared_bytes);  // [16 v][Kp]
  float* const added = state + 16 * state_stride;               // [16 v][C]

  const float* const kept =
      (back ? w.kept_d_states : w.kept_states) + column +
      (tile_index(w, sequence, first) * p.num_value_heads + head) * value_stride * key_stride;
  for (int e = thread; e < 16 * key_stride; e += kChainThreads) {
    state[e % 16 * state_stride + e / 16] = kept[e / 16 * value_stride + e % 16];
  }
  __syncthreads();

#pragma unroll 1
  for (int c = 0; c < num_chunks; ++c) {
    const ChunkTiles<C> tiles(p, w, chunk + (back ? num_chunks - 1 - c : c), head);
    float* const of_chunk = (back ? tiles.d_state() : tiles.state()) + column;
    if (c + 1 == num_chunks) {  // no chunk of the tile is behind it
      for (int e = thread; e < 16 * key_stride; e += kChainThreads) {
        of_chunk[e / 16 * value_stride + e % 16] = state[e % 16 * state_stride + e / 16];
      }
      return;
    }
    const float* const rows = (back ? tiles.d_values() : tiles.values()) + column;
    for (int e = thread; e < 16 * C; e += kChainThreads) {
      const int t = e / 16, v = e % 16;
      added[v * kAddedStride + t] =
          rows[t * value_stride + v] * weight_of_row(tiles.gates(), back, t);
    }
    __syncthreads();
    advance_columns(state, state_stride, added, tiles, back, column, of_chunk, warp, lane);
    __syncthreads();
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
