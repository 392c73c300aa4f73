// Stage 3 of cuda/chunkwise: K K^T of a chunk, L = I + strict_lower(diag(beta) (K K^T * D)) and its
// inverse T, in float32. One block per (chunk, value head), one warp per 16 rows.
//
// K K^T is formed in the token dtype's products with float32 sums; the norms of keys are factors of
// L, not of the operands, so nothing is rounded for them.
//
// Bound by: latency of the substitution (C / 16 dependent block rows); its products are float32.
#pragma once

#include "cuda/gated_delta/chunk/chunkwise_workspace.cuh"
#include "cuda/gated_delta/chunk/tile_copy.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Key dimensions in shared memory at a time.
constexpr int kInverseSlab = 64;

template <typename Element, int C>
struct InverseShared {
  ChunkGates<C> gates;
  Element key[C * tile_stride(kInverseSlab)];
  float L[C * kTriangleStride<C>];
};

template <typename Element, int C>
__global__ void __launch_bounds__(2 * C)
    inverse_kernel(const GatedDeltaParams p, const ChunkwiseWorkspace w) {
  constexpr int kBlocks = C / 16;
  constexpr int kThreads = 32 * kBlocks;
  constexpr int kKeyStride = tile_stride(kInverseSlab);
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  auto& shared = *reinterpret_cast<InverseShared<Element, C>*>(shared_bytes);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int i = thread / 32;  // this warp's block row, later its block column
  const int chunk = static_cast<int>(blockIdx.x / p.num_value_heads);
  const int head = static_cast<int>(blockIdx.x % p.num_value_heads);
  const ChunkSpan span = chunk_span<C>(p, w.map, chunk);
  if (span.length == 0 || span.padding) return;
  const std::int64_t index = chunk_head(p, chunk, head);

  copy_async(&shared.gates, gates_at<C>(w, index), sizeof(ChunkGates<C>), thread, kThreads);
  const Element* const key =
      key_at<Element>(p, span.first_token, head / p.value_heads_per_key_head);
  Accumulator products[kBlocks];  // K K^T, blocks (i, 0 .. i)
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) products[j] = zero_accumulator();
  for (int first = 0; first < p.key_head_dim; first += kInverseSlab) {
    const int columns = min(kInverseSlab, p.key_head_dim - first);
    copy_rows_async(shared.key, kKeyStride, key + first, p.key_token_stride, C, span.length,
                    columns, 16 * blocks_of_16(columns), thread, kThreads);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    for (int column = 0; column < columns; column += 16) {
      const auto rows = load_fragment(shared.key, kKeyStride, 16 * i, column, lane);
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        if (j <= i) {
          multiply_add(products[j], rows,
                       load_fragment(shared.key, kKeyStride, 16 * j, column, lane));
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    if (j <= i) {
#pragma unroll
      for (int e = 0; e < 8; e += 2) {
        const int r = 16 * i + fragment_row(lane, e);
        float2 pair;
#pragma unroll
        for (int f = 0; f < 2; ++f) {
          const int c = 16 * j + fragment_column(lane, e + f);
          const float entry = shared.gates.beta[r] * shared.gates.key_factor[r] *
                              shared.gates.key_factor[c] * decay_between(shared.gates, r, c) *
                              products[j].value[e + f];
          (f == 0 ? pair.x : pair.y) = r > c ? entry : 0.0f;
        }
        *reinterpret_cast<float2*>(shared.L + r * kTriangleStride<C> + 16 * j +
                                   fragment_column(lane, e)) = pair;
      }
    }
  }
  __syncwarp();
  invert_diagonal_block<C>(shared.L, i, lane);
  __syncthreads();
  float* const inverse = inverse_at<C>(w, index);
  substitute_block_column<C>(shared.L, i, lane, [&](int row, const Accumulator& block) {
    store_fragment(inverse + triangle_block(row, i) * kFragmentElements,
                   round_to_fragment<float>(block), lane);
  });
}

}  // namespace gdn::GDN_CUDA_TARGET
