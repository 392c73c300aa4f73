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

/// How gates reach the warps that sum them.
enum class GateForm {
  log_decays,  ///< copied: float32 log decays, used as they lie
  floats,      ///< copied: float32, decoded in registers
  halves,      ///< copied: elements of the tokens' type, decoded in registers
  read         ///< read one by one, then as `floats`: what cannot be copied, and decays
};
constexpr bool decoded_late(GateForm form) { return form != GateForm::log_decays; }

struct ChannelParams {
  GatedDeltaParams p;
  std::int32_t items = 0;  ///< work items: sequences times value heads
  GateForm gate_form = GateForm::read;
};

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
