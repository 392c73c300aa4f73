// The two parallel ones of the kernels of hip/chunkwise (chunkwise.hip says what they do), with one decay a head or
// one a key channel (channel_gates.h). Included by .hip files only.
#pragma once

#include "hip/gated_delta/channel_gates.h"
#include "hip/gated_delta/chunk_slots.h"
#include "hip/gated_delta/chunk_tiles.h"

namespace gdn::hip {

template <typename Tile, int D, int C, typename Gates>
struct PrepareLds {
  TokenRows<Tile, D, C> keys;
  TwoTriangles<C> triangles;
  Gates gates;
};

/// Grid: x = slot, y = value head.
template <typename Tile, int D, int C, typename Gates = ChunkGates<C>>
__device__ __forceinline__ void prepare(const ChunkwiseParams& params) {
  GDN_LDS(lds, PrepareLds<Tile, D, C, Gates>);
  const GatedDeltaParams& p = params.delta;
  const std::int64_t slot = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x);
  const SlotChunk chunk = chunk_of_slot<C>(p, slot);
  if (chunk.count == 0 || span_of(p, chunk.sequence).row < 0) return;
  load_gates(p, chunk.token, chunk.count, head, lds.gates);
  load_keys(p, chunk.token, key_head_of(p, head), chunk.count, lds.keys);
  __syncthreads();
  multiply_rows<true, false>(lds.keys, lds.keys, lds.gates, lds.triangles);
  __syncthreads();

  const int Dk = p.key_head_dim, Dv = p.value_head_dim;
  float* const carried = params.carried + slot_head(p, slot, head) * C * Dk;
  float* const update = params.update + slot_head(p, slot, head) * C * Dv;
  if (thread < Dk) {
    float x[C];
#pragma unroll
    for (int i = 0; i < C; ++i) {
      x[i] = lds.gates.beta[i] * decay_from_start(lds.gates, i, thread) * lds.keys.factor[i] *
             to_float(lds.keys.x[i][thread]);
    }
    solve_column(lds.triangles, x);
#pragma unroll
    for (int i = 0; i < C; ++i) carried[i * Dk + thread] = x[i];
  }
#pragma unroll 1
  for (int column = thread; column < Dv; column += kChunkThreads) {
    float x[C];
    with_token<Tile>(p, [&](auto* type) {
      using Token = std::remove_cv_t<std::remove_pointer_t<decltype(type)>>;
      const Token* const values = value_at<Token>(p, chunk.token, head) + column;
#pragma unroll
      for (int i = 0; i < C; ++i) {
        x[i] =
            i < chunk.count ? lds.gates.beta[i] * to_float(values[i * p.value_token_stride]) : 0.0f;
      }
    });
    solve_column(lds.triangles, x);
#pragma unroll
    for (int i = 0; i < C; ++i) update[i * Dv + column] = x[i];
  }
}

template <typename Tile, int D, int C, typename Gates>
struct OutputsLds {
  TokenRows<Tile, D, C> keys, queries;
  UpdateRows<C> update;
  TwoTriangles<C> triangles;
  Gates gates;
};

/// Grid: x = slot, y = value head, z = tiles of 128 columns.
template <typename Tile, int D, int C, typename Gates = ChunkGates<C>>
__device__ __forceinline__ void outputs(const ChunkwiseParams& params) {
  GDN_LDS(lds, OutputsLds<Tile, D, C, Gates>);
  const GatedDeltaParams& p = params.delta;
  const std::int64_t slot = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y);
  const int first_column = static_cast<int>(blockIdx.z) * kTileColumns;
  const int Dv = p.value_head_dim;
  const SlotChunk chunk = chunk_of_slot<C>(p, slot);
  if (chunk.count == 0 || span_of(p, chunk.sequence).row < 0) return;
  const int key_head = key_head_of(p, head);
  load_gates(p, chunk.token, chunk.count, head, lds.gates);
  load_keys(p, chunk.token, key_head, chunk.count, lds.keys);
  load_queries(p, chunk.token, key_head, chunk.count, lds.queries);
  const float* const update = params.update + slot_head(p, slot, head) * C * Dv + first_column;
#pragma unroll 4
  for (int step = 0; step < C * kTileColumns / kChunkThreads; ++step) {
    const int i =
        static_cast<int>(threadIdx.x) / kTileColumns + kChunkThreads / kTileColumns * step;
    const int column = static_cast<int>(threadIdx.x) % kTileColumns;
    lds.update.x[i][column] = first_column + column < Dv ? update[i * Dv + column] : 0.0f;
  }
  ChunkState<D> state;
  state.load_registers(params.state +
                       (slot_head(p, slot, head) * params.column_tiles + blockIdx.z) *
                           ChunkState<D>::kElements);
  __syncthreads();
  multiply_rows<false, true>(lds.queries, lds.keys, lds.gates, lds.triangles);
  __syncthreads();
  if constexpr (Gates::kOfChannels) {
    decay_rows(lds.gates, lds.queries);
    __syncthreads();
  }
#pragma unroll 1
  for (int block = 0; 8 * block < chunk.count; ++block) {
    store_output(p, lds.triangles, lds.update, chunk.token, chunk.count, head, first_column, block,
                 decayed_product(lds.queries, lds.gates, state, block));
  }
}

}  // namespace gdn::hip
