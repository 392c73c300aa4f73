// What hip/chunkwise launches for states inside the call beside the kernels of chunkwise.hip: the segments that
// checkpoints cut sequences into (chunkwise_walk.h), and the walk that stores states where they end.
#include "hip/gated_delta/channel_gates.h"
#include "hip/gated_delta/chunkwise_walk.h"

namespace gdn::hip {

/// Grid: x = tiles of as many sequences as a workgroup has threads.
extern "C" __global__ __launch_bounds__(kSegmentThreads) void checkpoints_segments(
    SegmentParams params) {
  const GatedDeltaParams& p = params.delta;
  const Checkpoints& checkpoints = params.checkpoints;
  const int n = static_cast<int>(blockIdx.x) * kSegmentThreads + static_cast<int>(threadIdx.x);
  if (n >= p.num_sequences) return;
  const Span span = span_of(p, n);
  std::int64_t segment = static_cast<std::int64_t>(n) * (checkpoints.count + 1);
  std::int64_t begin = span.first;
  for (int j = 0; j <= checkpoints.count; ++j, ++segment) {
    params.offsets[segment] = begin;
    params.slot_index[segment] = span.row;
    if (j == checkpoints.count || span.length == 0) continue;
    const std::int64_t tokens =
        checkpoints.tokens[static_cast<std::int64_t>(n) * checkpoints.count + j];
    if (tokens != 0) begin = span.first + tokens;
  }
  if (n == p.num_sequences - 1) params.offsets[segment] = span.first + span.length;
}

// checkpoints_walk_<chunk>_<rows>_<tile>
#define GDN_WALK(chunk, dk, suffix, Tile)                                                  \
  extern "C" __global__ __launch_bounds__(kChunkThreads) void                              \
      checkpoints_walk_##chunk##_##dk##_##suffix(ChunkwiseCheckpointParams p) {            \
    walk<Tile, dk, chunk, ChunkGates<chunk>>(p.chunkwise, WithCheckpoints{p.checkpoints}); \
  }
#define GDN_WALK_TILES(chunk, dk) \
  GDN_WALK(chunk, dk, f32, float) \
  GDN_WALK(chunk, dk, f16, Half)

GDN_WALK_TILES(32, 64)
GDN_WALK_TILES(32, 128)
GDN_WALK_TILES(16, 256)

// checkpoints_walk_channel_<rows>: with one decay for each key channel
#define GDN_CHANNEL_WALK(dk)                                                                 \
  extern "C" __global__ __launch_bounds__(kChunkThreads) void checkpoints_walk_channel_##dk( \
      ChunkwiseCheckpointParams p) {                                                         \
    walk<AnyToken, dk, 16, ChannelEnds<dk>>(p.chunkwise, WithCheckpoints{p.checkpoints});    \
  }

GDN_CHANNEL_WALK(64)
GDN_CHANNEL_WALK(128)

}  // namespace gdn::hip
