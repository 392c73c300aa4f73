// The sizes of fused_sm90, and how it cuts sequences into pieces: which slots of the workspace
// those have. Chunks and their slots are those of every chunk kernel for Hopper
// (chunk_sm90/chunk.h). Plain C++ that host and device share (nvcc takes constexpr functions as
// device code).
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/gated_delta/chunk_sm90/chunk.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

using namespace chunk_sm90;

inline constexpr int kKeyDim = 128;    ///< Dk: columns of K and Q
inline constexpr int kValueDim = 128;  ///< Dv: columns of V and O
/// Columns of K, Q, V or O that lie side by side in shared memory: 128 bytes, the widest swizzle.
/// Of V, those that one math warpgroup owns.
inline constexpr int kPanel = 64;
inline constexpr int kTokenBytes = 2;  ///< of an element of K, Q, V and O
inline constexpr int kStateElements = kValueDim * kKeyDim;

/// Most sequences that the one-launch kernel takes: a block orders them in shared memory.
inline constexpr int kMostOrderedSequences = 256;

/// Most chunks before a piece that the chain runs itself, to forget what was before them: where
/// that does for every piece, and where the pieces kernel has worked, whose states are there then
/// for the price of loading them.
inline constexpr int kOwnChunks = 10, kOwnChunksBesideOthers = 3;

/// Blocks of the prepare kernel: their threads, and how many share a multiprocessor.
inline constexpr int kPrepareThreads = 128, kPrepareBlocksPerMultiprocessor = 4;

/// Blocks of the prepare kernel that save the initial state of one sequence and value head.
inline constexpr int kSavingBlocks = 4;

/// The transition M of a piece, Dk x Dk: S_out = S_in M + Z, where Z is the state that the piece
/// leaves where it begins with zeros (S [Dv, Dk], as everywhere here). M lies in memory in two
/// parts of bfloat16, high and low, each two tiles of 64 of its rows as mn_major_128 reads them.
inline constexpr int kTransitionTileBytes = 2 * kPanel * kKeyDim,
                     kTransitionBytes = 2 * (kKeyDim / kPanel) * kTransitionTileBytes;

// ---- piece slots: as chunk slots are made of the offsets

/// First piece slot of a sequence in pieces of `chunks` chunks.
constexpr std::int64_t first_piece_slot(std::int64_t offset, std::int64_t sequence, int chunks) {
  return static_cast<std::uint32_t>(first_chunk_slot(offset, sequence)) /
             static_cast<std::uint32_t>(chunks) +
         sequence;
}
constexpr std::int64_t piece_slots(std::int64_t tokens, std::int64_t sequences, int chunks) {
  return chunk_slots(tokens, sequences) / chunks + sequences;
}

/// First token of a piece, counted from its sequence's beginning. It computes the tokens from there
/// on to the next piece's first, or to the sequence's end.
constexpr std::int64_t piece_begin(const int& piece, const int& chunks) {
  return static_cast<std::int64_t>(piece) * chunks * kChunk;
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
