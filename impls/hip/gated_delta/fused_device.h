// The kernel of hip/fused (fused.hip says what it does and what bounds it), with and without states that
// are stored inside the call: chunks end at checkpoints. Included by .hip files only.
#pragma once

#include "hip/gated_delta/checkpoints.h"
#include "hip/gated_delta/chunk_tiles.h"

namespace gdn::hip {

template <typename Tile, int D, int C>
struct FusedLds {
  TokenRows<Tile, D, C> key;
  union {  // Q has become from_state before the right-hand sides take its place
    TokenRows<Tile, D, C> query;
    UpdateRows<C> update;
  };
  TwoTriangles<C> triangles;
  ChunkGates<C> gates;
};

/// Grid: x = tiles of 128 columns, y = value head, z = sequence.
template <typename Tile, int D, int C, typename States = NoCheckpoints>
__device__ __forceinline__ void fused(const GatedDeltaParams& p, const States& checkpoints = {}) {
  GDN_LDS(lds, FusedLds<Tile, D, C>);
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const int first_column = static_cast<int>(blockIdx.x) * kTileColumns;
  const int key_head = key_head_of(p, head);
  const Span span = span_of(p, sequence);
  checkpoints.store_absent(p, sequence, span,
                           [&](const GatedDeltaParams& states, std::int64_t row) {
                             ChunkState<D> zeros;
                             zeros.clear();
                             zeros.store_pool(states, row, head, first_column);
                           });
  if (span.length == 0) return;
  if (span.row < 0) {
    store_zero_outputs(p, span, head, first_column);
    return;
  }
  const TileThread thread = tile_thread();
  ChunkState<D> state;
  state.load_pool(p, span.row, head, first_column);

  auto walk = checkpoints.walk(sequence, span.length);
  std::int64_t start = 0;
  do {
    for (; start < walk.end; start += C) {
      const std::int64_t token = span.first + start;
      const int count = walk.end - start < C ? static_cast<int>(walk.end - start) : C;
      load_gates(p, token, count, head, lds.gates);
      load_keys(p, token, key_head, count, lds.key);
      load_queries(p, token, key_head, count, lds.query);
      __syncthreads();

      multiply_rows<true, true>(lds.query, lds.key, lds.gates, lds.triangles);
      float4 from_state[C / 8];  // diag(gamma) Q S
#pragma unroll
      for (int block = 0; block < C / 8; ++block) {
        if (8 * block < count) {
          from_state[block] = decayed_product(lds.query, lds.gates, state, block);
        }
      }
      __syncthreads();

#pragma unroll 1
      for (int block = 0; block < C / 8; ++block) {  // diag(beta) (V - diag(gamma) K S)
        const int i = 8 * block + thread.group;
        float right[4];
        load_values<Tile>(p, token + (i < count ? i : 0), head, first_column + thread.column,
                          i < count ? p.value_head_dim : 0, right);
        const float4 predicted = decayed_product(lds.key, lds.gates, state, block);
        const float beta = lds.gates.beta[i];
        *reinterpret_cast<float4*>(&lds.update.x[i][thread.column]) =
            make_float4(beta * (right[0] - predicted.x), beta * (right[1] - predicted.y),
                        beta * (right[2] - predicted.z), beta * (right[3] - predicted.w));
      }
      __syncthreads();

      solve_update(lds.triangles, lds.update);
      __syncthreads();

#pragma unroll
      for (int block = 0; block < C / 8; ++block) {
        if (8 * block < count) {
          store_output(p, lds.triangles, lds.update, token, count, head, first_column, block,
                       from_state[block]);
        }
      }
      advance_state(lds.key, lds.update, lds.gates, count, state);
      __syncthreads();
    }
    walk.store(p, [&](const GatedDeltaParams& states, std::int64_t row) {
      state.store_pool(states, row, head, first_column);
    });
    start = walk.end;
  } while (walk.next());

  state.store_pool(p, span.row, head, first_column);
}

}  // namespace gdn::hip
