// hip/chunkwise: the chunkwise form as three kernels, so that all but the state's own recurrence
// runs over all chunks at once.
//
//     prepare   every chunk: K K^T, forward substitution for W and U   (parallel over chunks)
//     walk      every head: V' = U - W S, then the state's update      (serial over chunks)
//     outputs   every chunk: Q S and the scores times V'               (parallel over chunks)
//
// The price is what lies in memory between them: W, U and the state before every chunk, C (Dk + Dv)
// + Dk Dv floats per chunk and head, written once and read once (U twice). The arithmetic of walk
// is a third of the fused kernel's, which is what the critical path of a long sequence is made of.
//
// Bound by: memory traffic of the states in prepare's and outputs' favour, VALU issue in walk.
// Modelled, not measured (gdnbench bench --device gfx906-emulator --heads 16/32 --dim 128 --seq
// 1x256 --h0 normal): float32 0.576 ms, float16 0.455 ms. With all rows as float32 in LDS it was
// 0.649 ms and 0.698 ms.
#include "hip/gated_delta/chunkwise_stages.h"
#include "hip/gated_delta/chunkwise_walk.h"

namespace gdn::hip {
// chunkwise_<step>_<chunk>_<rows>_<tile>
#define GDN_CHUNKWISE_STEP(step, chunk, dk, suffix, Tile)                                   \
  extern "C" __global__ __launch_bounds__(                                                  \
      kChunkThreads) void chunkwise_##step##_##chunk##_##dk##_##suffix(ChunkwiseParams p) { \
    step<Tile, dk, chunk>(p);                                                               \
  }
#define GDN_CHUNKWISE(chunk, dk, suffix, Tile)         \
  GDN_CHUNKWISE_STEP(prepare, chunk, dk, suffix, Tile) \
  GDN_CHUNKWISE_STEP(walk, chunk, dk, suffix, Tile)    \
  GDN_CHUNKWISE_STEP(outputs, chunk, dk, suffix, Tile)
#define GDN_CHUNKWISE_TILES(chunk, dk) \
  GDN_CHUNKWISE(chunk, dk, f32, float) \
  GDN_CHUNKWISE(chunk, dk, f16, Half)

GDN_CHUNKWISE_TILES(32, 64)
GDN_CHUNKWISE_TILES(32, 128)
GDN_CHUNKWISE_TILES(16, 256)

}  // namespace gdn::hip
