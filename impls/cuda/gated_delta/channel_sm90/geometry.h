// The sizes of channel_sm90, and how many pieces sequences are cut into. Plain C++ that host and
// device share (nvcc takes constexpr functions as device code).
#pragma once

#include <cstdint>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::channel_sm90 {

inline constexpr int kChunk = 16;                     ///< C: what one warp holds in registers
inline constexpr int kKeyDim = 128, kValueDim = 128;  ///< Dk, Dv

/// Most sequences that a block orders by their length, in shared memory. More are taken as they lie,
/// and are never cut.
inline constexpr int kMostOrderedSequences = 512;

constexpr std::int64_t chunks_of(std::int64_t tokens) { return (tokens + kChunk - 1) / kChunk; }

/// Pieces of a sequence: all of `chunks` chunks, but for the last.
constexpr std::int32_t pieces_of(std::int32_t tokens, std::int32_t chunks) {
  return tokens == 0 ? 0 : (tokens - 1) / (chunks * kChunk) + 1;
}
/// Pieces, numbered through all sequences, have a slot each in the workspace. So many suffice for
/// any lengths of `sequences` sequences with `tokens` tokens in all.
constexpr std::int64_t piece_slots(std::int64_t tokens, std::int64_t sequences,
                                   std::int64_t chunks) {
  return tokens / (chunks * kChunk) + sequences;
}
/// Numbers of pieces, and of what is made of them, are 16 bits in shared memory.
inline constexpr std::int64_t kMostPieceSlots = 32767;

/// Work items of a value head that Work::transitions has of a sequence of so many pieces: of the
/// first piece the state after it, of those between it and the last one the state and the
/// transition, of the last none.
constexpr std::int32_t transition_items(std::int32_t pieces) {
  return pieces < 2 ? 0 : 2 * pieces - 3;
}

}  // namespace gdn::GDN_CUDA_TARGET::channel_sm90
