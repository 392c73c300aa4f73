// What of a chunk is known without the states around it, so that a step of either chain is two products:
//
//     L = I + strict_lower(diag(beta) (K K^T * D)),   T = L^-1,   P = lower(Q K^T * D)
//     forwards    V' = T diag(beta) V   - (T diag(beta gamma) K) S
//     backwards   Y  = T^T P^T dO       + (T^T diag(gamma_C / gamma) K) D
//
// A block for each chunk and value head. T and P stay in shared memory; the four matrices on the right go to
// the workspace, a warp for 16 columns at a time.
//
// Bound by: memory (three tiles read, four written), and latency of the inverse.
#pragma once

#include "cuda/gated_delta_backward/chunk/chunk_gradients.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

constexpr int kPrepareWarps = 8;

template <int C>
struct PrepareShared {
  ChunkGates<C> gates;
  float L[C * kTriangleStride<C>];  ///< later T^T P^T
  float T[C * kTriangleStride<C>];
  float P[C * kTriangleStride<C>];
  float key_factors[C];  ///< -beta gamma
};

template <int C>
__global__ void __launch_bounds__(32 * kPrepareWarps)
    backward_prepare_kernel(const BackwardParams backward, const ChunkGradients w) {
  constexpr int kBlocks = C / 16;
  constexpr int kStride = kTriangleStride<C>;
  constexpr int kThreads = 32 * kPrepareWarps;
  static_assert(kBlocks <= kPrepareWarps, "a warp for each block row");
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  auto& shared = *reinterpret_cast<PrepareShared<C>*>(shared_bytes);
  const GatedDeltaParams& p = backward.forward;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int chunk = static_cast<int>(blockIdx.x / p.num_value_heads);
  const int head = static_cast<int>(blockIdx.x % p.num_value_heads);
  const ChunkSpan span = chunk_span<C>(p, w.forward.map, chunk);
  if (span.length == 0 || span.padding) return;
  const ChunkTiles<C> tiles(p, w, chunk, head);
  const int key_blocks = tiles.key_stride / 16;
  const int value_blocks = tiles.value_stride / 16;
  const float* const key = tiles.key();

  for (int r = thread; r < static_cast<int>(sizeof(ChunkGates<C>) / sizeof(float)); r += kThreads) {
    reinterpret_cast<float*>(&shared.gates)[r] = reinterpret_cast<const float*>(&tiles.gates())[r];
  }
  for (int e = thread; e < C * kStride; e += kThreads) {
    shared.T[e] = 0;
    shared.P[e] = 0;
  }
  __syncthreads();
  if (thread < C)
    shared.key_factors[thread] = -shared.gates.beta[thread] * shared.gates.gamma[thread];

  // K K^T and Q K^T, lower blocks in turn.
  for (int item = warp; item < 2 * triangle_blocks(C); item += kPrepareWarps) {
    int i = 0;
    while (triangle_block(i + 1, 0) <= item / 2) ++i;
    const int j = item / 2 - triangle_block(i, 0);
    const bool of_query = item % 2;
    const float* const rows = of_query ? tiles.query() : key;
    Accumulator product = zero_accumulator();
    for (int kk = 0; kk < key_blocks; ++kk) {
      multiply_add(product, load_fragment(rows, tiles.key_stride, 16 * i, 16 * kk, lane),
                   load_fragment(key, tiles.key_stride, 16 * j, 16 * kk, lane));
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int r = 16 * i + fragment_row(lane, e), c = 16 * j + fragment_column(lane, e);
      const float decayed = decay_between(shared.gates, r, c) * product.value[e];
      if (of_query) {
        product.value[e] = r >= c ? decayed : 0.0f;
      } else {
        product.value[e] = r > c ? shared.gates.beta[r] * decayed : 0.0f;
      }
    }
    store_block(of_query ? shared.P : shared.L, kStride, 16 * i, 16 * j, product, lane);
  }
  __syncthreads();
  if (warp < kBlocks) invert_diagonal_block<C>(shared.L, warp, lane);
  __syncthreads();
  if (warp < kBlocks) {
    substitute_block_column<C>(shared.L, warp, lane, [&](int row, const Accumulator& block) {
      store_block(shared.T, kStride, 16 * row, 16 * warp, block, lane);
    });
  }
  __syncthreads();
  // T^T P^T, upper blocks: the sum over the rows between the two.
  for (int item = warp; item < kBlocks * kBlocks; item += kPrepareWarps) {
    const int i = item / kBlocks, j = item % kBlocks;
    Accumulator product = zero_accumulator();
    for (int c = i; c <= j; ++c) {
      multiply_add(product, load_fragment_transposed(shared.T, kStride, 16 * c, 16 * i, lane),
                   load_fragment(shared.P, kStride, 16 * j, 16 * c, lane));
    }
    store_block(shared.L, kStride, 16 * i, 16 * j, product, lane);
  }
  __syncthreads();

  // 16 columns of a product of a triangle and a tile. All rows are read before the first is written: U takes
  // the place of V.
  const auto multiply = [&](const float* tile, float* result, int stride, int column, bool lower,
                            auto triangle) {
    Fragment<float> columns[kBlocks];
#pragma unroll
    for (int c = 0; c < kBlocks; ++c) {
      columns[c] = load_fragment_transposed(tile, stride, 16 * c, column, lane);
    }
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < kBlocks; ++i) {
      Accumulator sums = zero_accumulator();
#pragma unroll
      for (int c = 0; c < kBlocks; ++c) {
        if (lower ? c <= i : c >= i) multiply_add(sums, triangle(i, c), columns[c]);
      }
      store_block(result, stride, 16 * i, column, sums, lane);
    }
  };
  const auto lower_triangle = [&](const float* factors) {
    return [&, factors](int i, int c) {
      Fragment<float> block = load_fragment(shared.T, kStride, 16 * i, 16 * c, lane);
      scale_columns(block, factors + 16 * c, lane);
      return block;
    };
  };
  for (int item = warp; item < 2 * (key_blocks + value_blocks); item += kPrepareWarps) {
    const int column = 16 * (item / 2 < key_blocks ? item / 2 : item / 2 - key_blocks);
    if (item / 2 >= key_blocks) {
      if (item % 2) {
        multiply(
            tiles.d_output(), tiles.d_values(), tiles.value_stride, column, false,
            [&](int i, int c) { return load_fragment(shared.L, kStride, 16 * i, 16 * c, lane); });
      } else {
        multiply(tiles.values(), tiles.values(), tiles.value_stride, column, true,
                 lower_triangle(shared.gates.beta));
      }
    } else if (item % 2) {
      multiply(key, tiles.of_d_state(), tiles.key_stride, column, false, [&](int i, int c) {
        Fragment<float> block = load_fragment_transposed(shared.T, kStride, 16 * c, 16 * i, lane);
        scale_columns(block, shared.gates.remaining + 16 * c, lane);
        return block;
      });
    } else {
      multiply(key, tiles.of_state(), tiles.key_stride, column, true,
               lower_triangle(shared.key_factors));
    }
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
