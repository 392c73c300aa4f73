// hip/chunkwise with one decay for each key channel (decay=channel, Kimi Delta Attention): the three kernels of
// chunkwise.hip with the gates of channel_gates.h, in chunks of 16 tokens, Dk of up to 128. Rows of q and k are float32 in
// LDS whatever the tokens are: they are multiplied by decays. The walk with states inside the call is in
// chunkwise_checkpoints.hip.
//
// Bound by: as chunkwise.hip, in prepare and outputs by the exponentials of the decays between two tokens besides.
// Modelled, not measured (gdnbench bench --device gfx906-emulator --heads 16/32 --dim 128 --seq 1x256 --h0 normal --dtype
// f32 --decay channel): 1.08 ms, where one decay a head and chunks of 32 tokens take 0.61 ms.
#include "hip/gated_delta/chunkwise_stages.h"
#include "hip/gated_delta/chunkwise_walk.h"

namespace gdn::hip {

// chunkwise_channel_<step>_<rows>
#define GDN_CHANNEL_STEP(step, dk, Gates)                                                      \
  extern "C" __global__ __launch_bounds__(kChunkThreads) void chunkwise_channel_##step##_##dk( \
      ChunkwiseParams p) {                                                                     \
    step<AnyToken, dk, 16, Gates>(p);                                                          \
  }
#define GDN_CHANNEL(dk)                           \
  using ChannelGates##dk = ChannelGates<dk, 16>;  \
  GDN_CHANNEL_STEP(prepare, dk, ChannelGates##dk) \
  GDN_CHANNEL_STEP(walk, dk, ChannelEnds<dk>)     \
  GDN_CHANNEL_STEP(outputs, dk, ChannelGates##dk)

GDN_CHANNEL(64)
GDN_CHANNEL(128)

}  // namespace gdn::hip
