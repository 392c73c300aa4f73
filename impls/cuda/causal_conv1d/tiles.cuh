// Tiles of tokens that sequences of a ragged batch are cut into, found on the device: tile i of all lies in the
// last sequence n with offsets[n] / run + n <= i, which leaves every sequence at least the tiles it needs (the few
// left over hold nothing) and needs no table from the host. Of the convolution and of its gradients.
#pragma once

#include <cstdint>

#include "cuda/target.h"
#include "interface/index_array.h"

namespace gdn::GDN_CUDA_TARGET {

/// Tiles of `run` tokens that any offsets of so many sequences and tokens need.
constexpr std::int64_t most_tiles(std::int64_t token_capacity, std::int64_t num_sequences,
                                  int run) {
  return token_capacity / run + num_sequences;
}

#ifdef __CUDACC__

inline constexpr int kTileWarp = 32;

struct Tile {
  int sequence_first;  // its first token, over all sequences
  int length;          // of the sequence
  int begin, end;      // tokens of the tile, counted from the sequence's first
  int sequence;
  int row;  // of the window pool; -1 = padding
};

/// First tile that sequence n can own.
template <typename Params>
__device__ __forceinline__ std::int64_t first_tile(const Params& p, std::int64_t n, int run) {
  return static_cast<int>(p.sequence_offsets[n]) / run + n;
}

/// Tile `index`; false if there is none. The lanes of a warp look for it together, 32 places at a
/// time: one after the other, the loads of a binary search are the longest part of a short tile.
template <typename Params>
__device__ bool find_tile(const Params& p, std::int64_t index, int run, Tile& tile) {
  const int lane = static_cast<int>(threadIdx.x % kTileWarp);
  std::int64_t low = 0;  // first_tile(low) <= index < first_tile(low + count)
  std::int64_t count = p.num_sequences;
  while (count > 1) {
    const std::int64_t step = (count + kTileWarp - 1) / kTileWarp;
    const std::int64_t place = low + lane * step;
    const bool begins_before = lane * step < count && first_tile(p, place, run) <= index;
    // Places that begin before `index` are the first ones: that of lane 0 always does.
    const int last = __popc(__ballot_sync(0xffffffffu, begins_before)) - 1;
    low += last * step;
    count = min(step, count - last * step);
  }
  const std::int64_t first = p.sequence_offsets[low], length = p.sequence_offsets[low + 1] - first;
  const std::int64_t begin = (index - first_tile(p, low, run)) * run;
  tile.sequence_first = static_cast<int>(first);
  tile.length = static_cast<int>(length);
  tile.begin = static_cast<int>(begin);
  tile.end = static_cast<int>(min(begin + run, length));
  tile.row = static_cast<int>(p.slot_index ? p.slot_index[low] : low);
  tile.sequence = static_cast<int>(low);
  return begin < length || begin == 0;  // an empty sequence still has a window
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
