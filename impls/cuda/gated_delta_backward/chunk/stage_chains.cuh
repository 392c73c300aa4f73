// The two chains over the chunks of a (sequence, value head), the only serial stage. They are mirrors of each
// other and neither needs the other, so one launch runs both:
//
//     forwards    V' = U + of_state S;        S <- gamma_C S + (diag(gamma_C / gamma) K)^T V'
//     backwards   Y = Y_0 + of_d_state D;     D <- gamma_C D + (diag(gamma) Q)^T dO - (diag(beta gamma) K)^T Y
//
// A block owns 16 columns of a chain and is independent of all others: S^T or D^T [16 v x Dk] stays in its
// shared memory. First its warps share out the chunk's tokens, then the key channels, with a barrier behind
// each. The state before each tile (chunk_gradients.cuh) is kept, and V' or Y takes the place of U or Y_0. A
// state in registers, 64 or 128 of a thread, spilled beside the parts of its split operands.
//
// Bound by: latency of one chunk, two dependent loops of products whose other operand comes from the L2.
#pragma once

#include "cuda/gated_delta_backward/chunk/chunk_gradients.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

constexpr int kChainWarps = 4;
constexpr int kChainThreads = 32 * kChainWarps;
constexpr int kChainBlocks = 4;  ///< that share a multiprocessor and so hide each other's latency

/// Dynamic shared memory: the state's 16 columns, and what each token adds to them.
template <int C>
__host__ __device__ constexpr int chain_shared_bytes(int key_stride) {
  return 16 * (tile_stride(key_stride) + tile_stride(C)) * static_cast<int>(sizeof(float));
}

/// Calls function(v, k) for the 16 columns from `column` on of a state, shared out over the block so that
/// consecutive threads read consecutive elements of the pool.
template <typename Function>
__device__ __forceinline__ void for_each_of_columns(const StatePool& pool, int column,
                                                    int key_channels, Function&& function) {
  const bool by_keys = pool.layout == StateLayout::vk;
#pragma unroll 1
  for (int e = static_cast<int>(threadIdx.x); e < 16 * key_channels; e += kChainThreads) {
    if (by_keys) {
      function(column + e / key_channels, e % key_channels);
    } else {
      function(column + e % 16, e / 16);
    }
  }
}

/// What a token adds to a state for each unit of its row of V', or of Y.
template <int C>
__device__ __forceinline__ float weight_of_row(const ChunkGates<C>& gates, bool back, int t) {
  return back ? -gates.beta[t] * gates.gamma[t] : gates.remaining[t];
}

/// The 16 columns of a state over one chunk, once added[v][t] holds its tokens' rows by weight_of_row. Where
/// kept is given, the state as it was goes there, [Kp, Vp] from the first of the columns on.
template <int C>
__device__ __forceinline__ void advance_columns(float* state, int state_stride, const float* added,
                                                const ChunkTiles<C>& tiles, bool back, int column,
                                                float* kept, int warp, int lane) {
  constexpr int kBlocks = C / 16;
  constexpr int kAddedStride = tile_stride(C);
  const ChunkGates<C>& gates = tiles.gates();
  const int key_stride = tiles.key_stride;
  const float chunk_decay = gates.gamma[C - 1];
#pragma unroll 1
  for (int k = 16 * warp; k < key_stride; k += 16 * kChainWarps) {
    Accumulator block = widen<float>(load_fragment(state, state_stride, 0, k, lane));
    if (kept != nullptr) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        kept[(k + fragment_column(lane, e)) * tiles.value_stride + fragment_row(lane, e)] =
            block.value[e];
      }
    }
#pragma unroll
    for (float& value : block.value) value *= chunk_decay;
#pragma unroll 2
    for (int i = 0; i < kBlocks; ++i) {
      multiply_add(block, load_fragment(added, kAddedStride, 0, 16 * i, lane),
                   load_fragment_transposed(tiles.key(), key_stride, 16 * i, k, lane));
    }
    if (back) {
#pragma unroll 2
      for (int i = 0; i < kBlocks; ++i) {
        Fragment<float> d_output =
            load_fragment_transposed(tiles.d_output(), tiles.value_stride, 16 * i, column, lane);
        scale_columns(d_output, gates.gamma + 16 * i, lane);
        multiply_add(block, d_output,
                     load_fragment_transposed(tiles.query(), key_stride, 16 * i, k, lane));
      }
    }
    store_block(state, state_stride, 0, k, block, lane);
  }
}

template <int C>
__global__ void __launch_bounds__(kChainThreads, kChainBlocks)
    backward_chains_kernel(const BackwardParams backward, const ChunkGradients w) {
  constexpr int kBlocks = C / 16;
  constexpr int kAddedStride = tile_stride(C);
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  const GatedDeltaParams& p = backward.forward;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int value_blocks = blocks_of_16(p.value_head_dim);
  const bool back = blockIdx.x < gridDim.x / 2;  // the longer chain first
  const unsigned int item = back ? blockIdx.x : blockIdx.x - gridDim.x / 2;
  const int column = 16 * static_cast<int>(item % value_blocks);
  const int head = static_cast<int>(item / value_blocks % p.num_value_heads);
  const int sequence = static_cast<int>(item / value_blocks / p.num_value_heads);
  const SequenceSpan span = sequence_span(p, sequence);
  if (span.is_padding() || (!back && span.length == 0)) return;
  const int first_chunk = w.forward.map.first_chunk[sequence];
  const int num_chunks = static_cast<int>((span.length + C - 1) / C);
  const int key_stride = 16 * blocks_of_16(p.key_head_dim);
  const int state_stride = tile_stride(key_stride);
  float* const state = reinterpret_cast<float*>(shared_bytes);  // [16 v][Kp]
  float* const added = state + 16 * state_stride;               // [16 v][C]

  const StatePool& pool = back ? backward.d_final : p.pool;
  for_each_of_columns(pool, column, key_stride, [&](int v, int k) {
    const bool there = k < p.key_head_dim && v < p.value_head_dim;
    state[(v - column) * state_stride + k] = there ? load_state(pool, span.row, head, k, v) : 0.0f;
  });
  __syncthreads();

#pragma unroll 1
  for (int c = 0; c < num_chunks; ++c) {
    const int chunk = back ? num_chunks - 1 - c : c;  // of the sequence
    const ChunkTiles<C> tiles(p, w, first_chunk + chunk, head);
    const ChunkGates<C>& gates = tiles.gates();
    const float* const of_state = back ? tiles.of_d_state() : tiles.of_state();
    float* const rows = back ? tiles.d_values() : tiles.values();
    const bool at_end_of_tile =
        back ? (chunk + 1) % w.tile_chunks == 0 || c == 0 : chunk % w.tile_chunks == 0;
    float* kept = nullptr;
    if (at_end_of_tile) {
      kept = (back ? w.kept_d_states : w.kept_states) + column +
             (tile_index(w, sequence, chunk) * p.num_value_heads + head) * tiles.value_stride *
                 key_stride;
    }

    for (int i = warp; i < kBlocks; i += kChainWarps) {
      Accumulator sums = widen<float>(  // V'^T or Y^T: rows v, columns tokens
          load_fragment_transposed(rows, tiles.value_stride, 16 * i, column, lane));
#pragma unroll 2
      for (int k = 0; k < key_stride; k += 16) {
        multiply_add(sums, load_fragment(state, state_stride, 0, k, lane),
                     load_fragment(of_state, key_stride, 16 * i, k, lane));
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int t = 16 * i + fragment_column(lane, e);
        rows[t * tiles.value_stride + column + fragment_row(lane, e)] = sums.value[e];
        sums.value[e] *= weight_of_row(gates, back, t);
      }
      store_block(added, kAddedStride, 0, 16 * i, sums, lane);
    }
    __syncthreads();

    advance_columns(state, state_stride, added, tiles, back, column, kept, warp, lane);
    __syncthreads();
  }

  if (!back) return;
  for_each_of_columns(backward.d_initial, column, p.key_head_dim, [&](int v, int k) {
    if (v >= p.value_head_dim) return;
    store_state(backward.d_initial, span.row, head, k, v, state[(v - column) * state_stride + k]);
  });
}

}  // namespace gdn::GDN_CUDA_TARGET
