// What the kernel of channel_sm90 takes, by value, and its sizes.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/channel_sm90/geometry.h"
#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

/// Columns of K, Q, V or O that lie side by side in shared memory: 128 bytes, the widest swizzle.
/// Of V, those that one math warpgroup owns.
inline constexpr int kPanel = 64;

/// How gates reach the warps that sum them.
enum class GateForm {
  log_decays,  ///< copied: float32 log decays, used as they lie
  floats,      ///< copied: float32, decoded in registers
  halves,      ///< copied: elements of the tokens' type, decoded in registers
  read         ///< read one by one, then as `floats`: what cannot be copied, and decays
};
constexpr bool decoded_late(GateForm form) { return form != GateForm::log_decays; }

/// What a launch of the kernel does.
enum class Work {
  sequences,    ///< all there is, a work item a value head of a sequence
  transitions,  ///< what pieces need of those before them: states after pieces, and transitions
  pieces,       ///< all there is, a work item a value head of a piece, whose start state is there
  checkpoints   ///< as sequences, and states inside of them
};

struct ChannelParams {
  GatedDeltaParams p;
  std::int32_t items = 0;  ///< work items of whole sequences: sequences times value heads
  GateForm gate_form = GateForm::read;
  // ---- of sequences in pieces (work_item.cuh)
  std::int32_t chunks_per_piece = 0;
  float* states = nullptr;       ///< [piece slots, Hv, Dv, Dk]: at a piece's start
  float* transitions = nullptr;  ///< [piece slots, Hv, Dk, Dk]: rows and columns as S = S M
  /// [piece slots, Hv]: chunks before the piece at which zeros may stand for the state, or its sequence
  /// begins. Negative where the piece needs the state at its start.
  std::int32_t* early_chunks = nullptr;
};

/// Offset of a state or a transition in an array of them.
__host__ __device__ inline std::int64_t matrix_offset(const ChannelParams& a, int slot, int head) {
  return (static_cast<std::int64_t>(slot) * a.p.num_value_heads + head) * (kKeyDim * kValueDim);
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
