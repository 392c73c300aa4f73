// In the place of stages 3 and 4 of cuda/chunkwise with the additive update: there is no triangular
// system, V' = diag(beta) V. One block per (chunk, value head, slab of 128 columns of V); a warp
// does 32 of the columns.
//
// Bound by: memory; V is read and written once.
#pragma once

#include "cuda/gated_delta/chunk/chunkwise_workspace.cuh"
#include "cuda/gated_delta/chunk/stage_wu.cuh"
#include "cuda/gated_delta/chunk/tile_copy.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

template <typename Element, int C>
struct AdditiveShared {
  ChunkGates<C> gates;
  Element tile[C * tile_stride(kWuSlab)];
};

template <typename Element, int C>
__global__ void __launch_bounds__(kWuThreads)
    additive_kernel(const GatedDeltaParams p, const ChunkwiseWorkspace w) {
  constexpr int kBlocks = C / 16;
  constexpr int kStride = tile_stride(kWuSlab);
  GDN_DYNAMIC_SHARED_MEMORY(shared_bytes, 16);
  auto& shared = *reinterpret_cast<AdditiveShared<Element, C>*>(shared_bytes);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int slabs = wu_slabs(p.value_head_dim);
  const int first = static_cast<int>(blockIdx.x % slabs) * kWuSlab;
  const int head = static_cast<int>(blockIdx.x / slabs % p.num_value_heads);
  const int chunk = static_cast<int>(blockIdx.x / slabs / p.num_value_heads);
  const ChunkSpan span = chunk_span<C>(p, w.map, chunk);
  if (span.length == 0 || span.padding) return;
  const std::int64_t index = chunk_head(p, chunk, head);

  const int columns = min(kWuSlab, p.value_head_dim - first);
  copy_rows_async(shared.tile, kStride, value_at<Element>(p, span.first_token, head) + first,
                  p.value_token_stride, C, span.length, columns, 16 * blocks_of_16(columns), thread,
                  kWuThreads);
  copy_async(&shared.gates, gates_at<C>(w, index), sizeof(ChunkGates<C>), thread, kWuThreads);
  commit_copies();
  wait_copies<0>();
  __syncthreads();

  const int end = min(thread / 32 * 32 + 32, columns);
  for (int column = thread / 32 * 32; column < end; column += 16) {
    Element* const target =
        values_at<Element, C>(w, p, index) + (first + column) / 16 * kBlocks * kFragmentElements;
    for (int i = 0; i < kBlocks; ++i) {
      Accumulator block =  // V^T: rows value dimensions, columns tokens
          widen(load_fragment_transposed(shared.tile, kStride, 16 * i, column, lane));
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        block.value[e] *= shared.gates.beta[16 * i + fragment_column(lane, e)];
      }
      store_fragment(target + i * kFragmentElements, round_to_fragment<Element>(block), lane);
    }
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
