// hip/fused: the chunkwise form in one kernel. A workgroup walks the chunks of one value head and
// 128 of its columns; the state never leaves the registers, and neither U nor W of the textbook
// form is stored: V' is solved for with the state's contribution already in the right-hand side.
//
// Per chunk: K, Q and gates to LDS | products K K^T, Q K^T and right-hand sides | forward
// substitution | outputs, then the state's update; a barrier at each bar. Chunk 16 or 32; for Dk =
// 128 and chunk 32 the tiles take 60 KB of LDS, so one workgroup (a wave per SIMD) runs on a
// compute unit.
//
// Arithmetic is that of the recurrence (this card has no matrix units); what the chunk buys is that
// nothing waits for a wave-wide sum per token.
// Bound by: VALU issue; between heads there is nothing to overlap the loads and barriers with.
#include "hip/gated_delta/chunk_tiles.h"

namespace gdn::hip {
namespace {

/// Grid: x = tiles of 128 columns, y = value head, z = sequence.
template <int D, int C>
__device__ __forceinline__ void fused(const GatedDeltaParams& p) {
  GDN_LDS(tiles, ChunkTiles<D, C>);
  const int head = static_cast<int>(blockIdx.y), sequence = static_cast<int>(blockIdx.z);
  const int first_column = static_cast<int>(blockIdx.x) * kTileColumns;
  const int key_head = key_head_of(p, head);
  const Span span = span_of(p, sequence);
  if (span.length == 0) return;
  if (span.row < 0) {
    store_zero_outputs(p, span, head, first_column);
    return;
  }
  const ChunkThread thread = chunk_thread();
  const int columns = p.value_head_dim - first_column;
  StateTile<D> state;
  state.load_pool(p, span.row, head, first_column);

  for (std::int64_t start = 0; start < span.length; start += C) {
    const std::int64_t token = span.first + start;
    const int count = span.length - start < C ? static_cast<int>(span.length - start) : C;
    load_gates(p, token, count, head, tiles);
    load_keys(p, token, key_head, count, tiles);
    load_queries(p, token, key_head, count, tiles);
    __syncthreads();

    multiply_rows<true>(tiles);
#pragma unroll 1
    for (int block = 0; block < C / 8; ++block) {  // diag(beta) (V - diag(gamma) K S)
      const int i = 8 * block + thread.group;
      const float4 product = state.template rows_times_state<C>(tiles.key, block);
      const float predicted[4] = {product.x, product.y, product.z, product.w};
      float right[4];
      load_values(p, token + i, head, first_column + thread.column,
                  i < count ? columns - thread.column : 0, right);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        right[e] = tiles.beta[i] * (right[e] - tiles.gamma[i] * predicted[e]);
      }
      *reinterpret_cast<float4*>(&tiles.update[i][thread.column]) =
          make_float4(right[0], right[1], right[2], right[3]);
    }
    __syncthreads();

    solve_update(tiles);
    __syncthreads();

    store_outputs(p, tiles, state, token, count, head, first_column);
    state.advance(tiles, count);
    __syncthreads();
  }

  state.store_pool(p, span.row, head, first_column);
}

}  // namespace

// fused_<chunk>_<rows>
#define GDN_FUSED(chunk, dk)                                                        \
  extern "C" __global__ __launch_bounds__(kChunkThreads) void fused_##chunk##_##dk( \
      GatedDeltaParams p) {                                                         \
    fused<dk, chunk>(p);                                                            \
  }
GDN_FUSED(16, 64)
GDN_FUSED(32, 64)
GDN_FUSED(16, 128)
GDN_FUSED(32, 128)
GDN_FUSED(16, 256)

}  // namespace gdn::hip
