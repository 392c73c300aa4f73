// What the kernel of channel_sm90 takes, by value, and its sizes.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

inline constexpr int kChunk = 16;                     ///< C: what one warp holds in registers
inline constexpr int kKeyDim = 128, kValueDim = 128;  ///< Dk, Dv
/// Columns of K, Q, V or O that lie side by side in shared memory: 128 bytes, the widest swizzle.
/// Of V, those that one math warpgroup owns.
inline constexpr int kPanel = 64;
/// Most sequences that a block orders by their length, in shared memory. More are taken as they lie.
inline constexpr int kMostOrderedSequences = 512;

struct ChannelParams {
  GatedDeltaParams p;
  std::int32_t items = 0;     ///< work items: sequences times value heads
  bool gates_copied = false;  ///< the copy engine brings the gates; else warps read and decode them
};

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
