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
#include "hip/gated_delta/fused_device.h"

namespace gdn::hip {

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
