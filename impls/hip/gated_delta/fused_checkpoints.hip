// The kernels of hip/fused that store states inside the call, of the chunk that problems get which ask for none.
#include "hip/gated_delta/fused_device.h"

namespace gdn::hip {

// checkpoints_fused_<chunk>_<rows>_<tile>
#define GDN_FUSED(chunk, dk, suffix, Tile)                                                  \
  extern "C" __global__ __launch_bounds__(                                                  \
      kChunkThreads) void checkpoints_fused_##chunk##_##dk##_##suffix(CheckpointParams p) { \
    fused<Tile, dk, chunk>(p.delta, WithCheckpoints{p.checkpoints});                        \
  }
#define GDN_FUSED_TILES(chunk, dk) \
  GDN_FUSED(chunk, dk, f32, float) \
  GDN_FUSED(chunk, dk, f16, Half)
GDN_FUSED_TILES(32, 64)
GDN_FUSED_TILES(32, 128)
GDN_FUSED_TILES(16, 256)

}  // namespace gdn::hip
