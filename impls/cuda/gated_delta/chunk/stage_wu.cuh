// Stage 4 of cuda/chunkwise: the WY form of a chunk,
//
//     U = T diag(beta) V,   W = T diag(beta gamma) K
//
// so that V' = U - W S (gamma in W: the gated T needs it, docs/contract.md, section 2). One block
// per (chunk, value head, slab of 128 columns of V or of K); a warp does 32 of the columns. beta,
// gamma and the key norms are factors of T's columns, applied in float32 before T is rounded to an
// operand; V and K are operands as they are given.
//
// Bound by: memory. Per token and head it reads V, K and T (Dv + Dk elements and about 2 C bytes)
// and writes as much as it read of V and K.
#pragma once

#include "cuda/gated_delta/chunk/chunkwise_workspace.cuh"
#include "cuda/gated_delta/chunk/tile_copy.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

constexpr int kWuSlab = 128;
constexpr int kWuThreads = 128;

/// Slabs of V, then slabs of K.
inline __host__ __device__ int wu_slabs(int dim) { return (dim + kWuSlab - 1) / kWuSlab; }

template <typename Element, int C>
struct WuShared {
  ChunkGates<C> gates;
  float inverse[triangle_blocks(C) * kFragmentElements];
  Element tile[C * tile_stride(kWuSlab)];
};

template <typename Element, int C>
__global__ void __launch_bounds__(kWuThreads)
    wu_kernel(const GatedDeltaParams p, const ChunkwiseWorkspace w) {
  constexpr int kBlocks = C / 16;
  constexpr int kStride = tile_stride(kWuSlab);
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  auto& shared = *reinterpret_cast<WuShared<Element, C>*>(shared_bytes);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int value_slabs = wu_slabs(p.value_head_dim);
  const int slabs = value_slabs + wu_slabs(p.key_head_dim);
  const int slab = static_cast<int>(blockIdx.x % slabs);
  const int head = static_cast<int>(blockIdx.x / slabs % p.num_value_heads);
  const int chunk = static_cast<int>(blockIdx.x / slabs / p.num_value_heads);
  const ChunkSpan span = chunk_span<C>(p, w.map, chunk);
  if (span.length == 0 || span.padding) return;
  const std::int64_t index = chunk_head(p, chunk, head);

  const bool is_value = slab < value_slabs;
  const int first = (is_value ? slab : slab - value_slabs) * kWuSlab;
  const int columns = min(kWuSlab, (is_value ? p.value_head_dim : p.key_head_dim) - first);
  const Element* const source =
      is_value ? value_at<Element>(p, span.first_token, head)
               : key_at<Element>(p, span.first_token, head / p.value_heads_per_key_head);
  copy_rows_async(shared.tile, kStride, source + first,
                  is_value ? p.value_token_stride : p.key_token_stride, C, span.length, columns,
                  16 * blocks_of_16(columns), thread, kWuThreads);
  copy_async(shared.inverse, inverse_at<C>(w, index), sizeof(shared.inverse), thread, kWuThreads);
  copy_async(&shared.gates, gates_at<C>(w, index), sizeof(ChunkGates<C>), thread, kWuThreads);
  commit_copies();
  wait_copies<0>();
  __syncthreads();
  // what multiplies column c of T: overwrites beta and gamma, not needed for themselves any more
  for (int c = thread; c < C; c += kWuThreads) {
    if (!is_value) {
      shared.gates.beta[c] *= shared.gates.gamma[c] * shared.gates.key_factor[c];
    }
  }
  __syncthreads();

  const int column = thread / 32 * 32;  // of the slab: this warp's 32
  if (column >= columns) return;
  const bool second = column + 16 < columns;  // its second 16 exist
  for (int i = 0; i < kBlocks; ++i) {
    Accumulator sums[2] = {zero_accumulator(), zero_accumulator()};
    for (int j = 0; j <= i; ++j) {
      Accumulator block = widen(
          load_stored_fragment(shared.inverse + triangle_block(i, j) * kFragmentElements, lane));
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        block.value[e] *= shared.gates.beta[16 * j + fragment_column(lane, e)];
      }
      const auto T = round_to_fragment<Element>(block);
#pragma unroll
      for (int f = 0; f < 2; ++f) {
        if (f == 1 && !second) break;
        const auto X =  // rows: columns of V or K; contraction: tokens
            load_fragment_transposed(shared.tile, kStride, 16 * j, column + 16 * f, lane);
        if (is_value) {
          multiply_add(sums[f], X, T);  // rows of U^T: value dimensions
        } else {
          multiply_add(sums[f], T, X);  // rows of W: tokens
        }
      }
    }
#pragma unroll
    for (int f = 0; f < 2; ++f) {
      if (f == 1 && !second) break;
      const int block = (first + column) / 16 + f;
      Element* const target =
          is_value ? values_at<Element, C>(w, p, index) + (block * kBlocks + i) * kFragmentElements
                   : w_at<Element, C>(w, p, index) +
                         (i * blocks_of_16(p.key_head_dim) + block) * kFragmentElements;
      store_fragment(target, round_to_fragment<Element>(sums[f]), lane);
    }
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
