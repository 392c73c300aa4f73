// The block of channel_sm90: its warps, its shared memory, and the rings through which they hand
// things on. Chunks are numbered through all work items of a block; a ring's stage and round are
// made of that number.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/channel_sm90/params.cuh"
#include "cuda/hopper/ring.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

using namespace hopper;

struct Layout {
  // Warps: eight of math in two warpgroups, then those that make chunks, and one that loads and stores.
  static constexpr int kMathWarps = 8, kAuxiliaryWarps = 7;
  static constexpr int kFeedingWarp = kMathWarps + kAuxiliaryWarps;
  static constexpr int kThreads = 32 * (kFeedingWarp + 1);

  // A chunk's slot. First what is loaded: panels of K and Q, each [16 tokens][64] with a 128-byte
  // swizzle, K above Q so that a panel of both is one operand of 32 rows; gates in float32,
  // [4 panels][16 tokens][32], or in 16 bits as K's panels lie. The scaled K and Q take the places of
  // K and Q, all else the gates'.
  static constexpr uint32_t kPanelBytes = 2 * kChunk * kPanel;
  static constexpr uint32_t kKey = 0, kQuery = kPanelBytes, kNextPanel = 2 * kPanelBytes;
  static constexpr uint32_t kGates = 2 * kNextPanel, kGateBytes = 4 * kChunk * kKeyDim;
  static constexpr uint32_t kSlotBytes = kGates + kGateBytes;
  static constexpr uint32_t kKeyToEnd = kGates;                // K^, [2 panels][16 tokens][64]
  static constexpr uint32_t kT = kKeyToEnd + 2 * kPanelBytes;  // [16][16] of the token type
  static constexpr uint32_t kP = kT + 2 * kChunk * kChunk;
  static constexpr uint32_t kBeta = kP + 2 * kChunk * kChunk;  // [16] float
  static constexpr uint32_t kLower = kBeta + 4 * kChunk;       // L, [16][16] float
  static_assert(kLower + 4 * kChunk * kChunk <= kSlotBytes && kLower % 16 == 0);

  static constexpr int kSlots = 12, kValueSlots = 6;
  static_assert(kSlots >= kAuxiliaryWarps && kSlots >= kValueSlots);
  static constexpr uint32_t kValueBytes = 2 * kPanelBytes;  // V, then O in its place
  static constexpr uint32_t kDecayBytes = 4 * kKeyDim;      // decays of a whole chunk

  static constexpr uint32_t kValue = kSlots * kSlotBytes;
  static constexpr uint32_t kDecay = kValue + kValueSlots * kValueBytes;
  // mbarriers
  static constexpr uint32_t kLoaded = kDecay + kSlots * kDecayBytes;  // a slot's K, Q and gates
  static constexpr uint32_t kReady = kLoaded + 8 * kSlots;            // what math takes of it
  static constexpr uint32_t kEmpty = kReady + 8 * kSlots;
  static constexpr uint32_t kValueFull = kEmpty + 8 * kSlots;
  static constexpr uint32_t kOutputFull = kValueFull + 8 * kValueSlots;
  static constexpr uint32_t kOrder = kOutputFull + 8 * kValueSlots;  // sequences, 16 bits each
  // Of sequences in pieces, instead: the numbers of each one's first piece and of its first item of
  // Work::transitions, and behind the last sequence how many there are; 16 bits each.
  static constexpr uint32_t kFirstPiece = kOrder;
  static constexpr uint32_t kFirstItem = kFirstPiece + 2 * (kMostOrderedSequences + 2);
  static constexpr uint32_t kBytes =
      kFirstItem + 2 * (kMostOrderedSequences + 2) + 1024;  // to align tiles
  static_assert(kBytes <= 232448 && kLoaded % 8 == 0);

  using Loads = Ring<kSlots, 0, kSlotBytes, kLoaded, kEmpty>;  // filled by copies
  using Chunks = Ring<kSlots, 0, kSlotBytes, kReady, kEmpty>;  // filled by auxiliary warps
  using Values = Ring<kValueSlots, kValue, kValueBytes, kValueFull, kOutputFull>;
};

/// Byte of a slot at which the gate of a token and key channel lies.
__device__ __forceinline__ uint32_t gate_at(int token, int channel) {
  return Layout::kGates + static_cast<uint32_t>(channel >> 5) * Layout::kPanelBytes +
         static_cast<uint32_t>(token) * 128 +
         ((static_cast<uint32_t>(channel & 31) * 4) ^ (static_cast<uint32_t>(token & 7) << 4));
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
