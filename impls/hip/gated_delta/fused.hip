// hip/fused: the chunkwise form in one kernel. A workgroup walks the chunks of one value head and
// 128 of its columns; the state never leaves the registers, and neither U nor W of the textbook
// form is stored: V' is solved for with the state's contribution already in the right-hand side.
//
// Per chunk: K, Q and gates to LDS | products K K^T, Q K^T and Q S | right-hand sides, in Q's place
// | forward substitution | outputs, then the state's update; a barrier at each bar. Chunk 16 or 32;
// for Dk = 128 and chunk 32 the tiles take 39 KB of LDS, of float16 tokens 31 KB. The registers
// allow one workgroup (a wave per SIMD) on a compute unit.
//
// Arithmetic is that of the recurrence (this card has no matrix units); what the chunk buys is that
// nothing waits for a wave-wide sum per token.
// Bound by: VALU issue; between heads there is nothing to overlap the loads and barriers with.
// Modelled, not measured (gdnbench bench --device gfx906-emulator --heads 16/32 --dim 128 --seq
// 1x256 --h0 normal): float32 0.507 ms, float16 0.414 ms. With all rows as float32 in 60 KB of LDS
// it was 0.576 ms and 0.645 ms.
#include "hip/gated_delta/chunk_tiles.h"

namespace gdn::hip {
namespace {

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
template <typename Tile, int D, int C>
__device__ __forceinline__ void fused(const GatedDeltaParams& p) {
  GDN_LDS(lds, FusedLds<Tile, D, C>);
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const int first_column = static_cast<int>(blockIdx.x) * kTileColumns;
  const int key_head = key_head_of(p, head);
  const Span span = span_of(p, sequence);
  if (span.length == 0) return;
  if (span.row < 0) {
    store_zero_outputs(p, span, head, first_column);
    return;
  }
  const TileThread thread = tile_thread();
  ChunkState<D> state;
  state.load_pool(p, span.row, head, first_column);

  for (std::int64_t start = 0; start < span.length; start += C) {
    const std::int64_t token = span.first + start;
    const int count = span.length - start < C ? static_cast<int>(span.length - start) : C;
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

  state.store_pool(p, span.row, head, first_column);
}

}  // namespace

// fused_<chunk>_<rows>_<tile>
#define GDN_FUSED(chunk, dk, suffix, Tile)                                                     \
  extern "C" __global__ __launch_bounds__(kChunkThreads) void fused_##chunk##_##dk##_##suffix( \
      GatedDeltaParams p) {                                                                    \
    fused<Tile, dk, chunk>(p);                                                                 \
  }
#define GDN_FUSED_TILES(chunk, dk) \
  GDN_FUSED(chunk, dk, f32, float) \
  GDN_FUSED(chunk, dk, f16, Half)
GDN_FUSED_TILES(16, 64)
GDN_FUSED_TILES(32, 64)
GDN_FUSED_TILES(16, 128)
GDN_FUSED_TILES(32, 128)
GDN_FUSED_TILES(16, 256)

}  // namespace gdn::hip
