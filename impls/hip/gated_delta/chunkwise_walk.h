// The serial one of the kernels of hip/chunkwise (chunkwise.hip says what they do), with and without states that
// are stored inside the call. Included by .hip files only.
//
// With checkpoints the sequences of `delta` are segments: the tokens of a sequence up to a checkpoint, and those
// behind its last one, a sequence of their own to the other kernels. Segment j of sequence n is number
// n * (count + 1) + j; it is without tokens where the checkpoint is not wanted.
#pragma once

#include "hip/gated_delta/checkpoints.h"
#include "hip/gated_delta/chunk_slots.h"
#include "hip/gated_delta/chunk_tiles.h"

namespace gdn::hip {

template <typename Tile, int D, int C, typename Gates>
struct WalkLds {
  TokenRows<Tile, D, C> keys;
  TokenRows<float, D, C> carried;  ///< W
  UpdateRows<C> update;
  Gates gates;
};

/// Grid: x = tiles of 128 columns, y = value head, z = sequence.
template <typename Tile, int D, int C, typename Gates = ChunkGates<C>,
          typename States = NoCheckpoints>
__device__ __forceinline__ void walk(const ChunkwiseParams& params,
                                     const States& checkpoints = {}) {
  GDN_LDS(lds, WalkLds<Tile, D, C, Gates>);
  const GatedDeltaParams& p = params.delta;
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const int first_column = static_cast<int>(blockIdx.x) * kTileColumns;
  const int Dk = p.key_head_dim, Dv = p.value_head_dim;
  const int first_segment = sequence * checkpoints.segments();
  Span span = span_of(p, first_segment);
  if (States::kAny) {
    span.length = p.sequence_offsets[first_segment + checkpoints.segments()] - span.first;
  }
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
  auto part = checkpoints.walk(sequence, span.length);
  std::int64_t start = 0;
  do {
    std::int64_t slot = first_slot<C>(p, first_segment + part.segment());
    for (; start < part.end; start += C, ++slot) {
      const std::int64_t token = span.first + start;
      const int count = part.end - start < C ? static_cast<int>(part.end - start) : C;
      const float* const carried = params.carried + slot_head(p, slot, head) * C * Dk;
      float* const update = params.update + slot_head(p, slot, head) * C * Dv + first_column;
      float* const states =
          params.state +
          (slot_head(p, slot, head) * params.column_tiles + blockIdx.x) * ChunkState<D>::kElements;
      load_gates(p, token, count, head, lds.gates);
      load_keys(p, token, key_head_of(p, head), count, lds.keys);
#pragma unroll
      for (int step = 0; step < C / kChunkWaves; ++step) {
        const int row = thread.wave + kChunkWaves * step;
#pragma unroll
        for (int i = 0; i < D / kWave; ++i) {
          const int k = thread.lane + kWave * i;
          lds.carried.x[row][k] = k < Dk ? carried[row * Dk + k] : 0.0f;
        }
      }
      state.store_registers(states);
      __syncthreads();
      if constexpr (Gates::kOfChannels) decay_to_end(p, token, count, head, lds.gates, lds.keys);
#pragma unroll 1
      for (int block = 0; block < C / 8; ++block) {
        const int i = 8 * block + thread.group;
        const float4 product = state.rows_times_state(lds.carried.x, block);
        const float carried_over[4] = {product.x, product.y, product.z, product.w};
        float corrected[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = thread.column + e;
          const bool inside = first_column + column < Dv;
          corrected[e] = inside ? update[i * Dv + column] - carried_over[e] : 0.0f;
          if (inside) update[i * Dv + column] = corrected[e];
        }
        *reinterpret_cast<float4*>(&lds.update.x[i][thread.column]) =
            make_float4(corrected[0], corrected[1], corrected[2], corrected[3]);
      }
      __syncthreads();
      advance_state(lds.keys, lds.update, lds.gates, count, state);
      __syncthreads();
    }
    part.store(p, [&](const GatedDeltaParams& states, std::int64_t row) {
      state.store_pool(states, row, head, first_column);
    });
    start = part.end;
  } while (part.next());
  state.store_pool(p, span.row, head, first_column);
}

}  // namespace gdn::hip
