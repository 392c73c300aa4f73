// The sizes of fused_sm90. Chunks, pieces and their slots in the workspace are those of every chunk
// kernel for Hopper (chunk_sm90/chunk.h, pieces.h). Plain C++ that host and device share (nvcc takes
// constexpr functions as device code).
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/gated_delta/chunk_sm90/chunk.h"
#include "cuda/gated_delta/chunk_sm90/head_dims.h"
#include "cuda/gated_delta/chunk_sm90/pieces.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

using namespace chunk_sm90;

/// Panels that a head's V has, of which a math warpgroup owns one. Where a block takes two of them an
/// odd number leaves one that is not there: copies fill it with zeros and store nothing of it.
constexpr int value_panels(int value_head_dim) { return value_head_dim / kPanel; }
/// Of two panels each, that a head's V has.
constexpr int value_slices(int panels) { return (panels + 1) / 2; }
inline constexpr int kTokenBytes = 2;  ///< of an element of K, Q, V and O
inline constexpr int kStateElements = kValueDim * kKeyDim;

/// The rows that a token has in chunks: one, or of n Householder steps the next power of two, so that chunks begin
/// with a token. The last n of them are the steps. Those before are empty: they have no key and a beta of zero. The
/// query stands in the last row, which alone has an output. Where tokens have several rows, every kernel of this folder
/// takes rows for tokens; the maps that tokens are copied by know better (tensor_maps.h).
struct TokenRows {
  int log2 = 0;        ///< of their number
  int first_step = 0;  ///< the step that a token's first row is: negative where it is empty
  int query_step = 0;  ///< likewise, where the last row is step 0 and the others are none
};
constexpr TokenRows token_rows(int steps) {
  int log2 = 0;
  while (1 << log2 < steps) ++log2;
  return {log2, steps - (1 << log2), 1 - (1 << log2)};
}

/// Most sequences that the one-launch kernel takes: a block orders them in shared memory.
inline constexpr int kMostOrderedSequences = 256;

/// Most chunks before a piece that the chain runs itself, to forget what was before them: where
/// that does for every piece, and where the pieces kernel has worked, whose states are there then
/// for the price of loading them.
inline constexpr int kOwnChunks = 10, kOwnChunksBesideOthers = 3;
/// The same where tokens have several rows: it is tokens that forget, of which a chunk then has fewer.
constexpr int most_own_chunks(const TokenRows& rows) { return kOwnChunks << rows.log2; }

/// Blocks of the prepare kernel: their threads, and how many share a multiprocessor.
inline constexpr int kPrepareThreads = 128, kPrepareBlocksPerMultiprocessor = 4;

/// Blocks of the prepare kernel that save the initial state of one sequence and value head, for each
/// 128 columns of V.
inline constexpr int kSavingBlocks = 4;

/// The transition M of a piece, Dk x Dk: S_out = S_in M + Z, where Z is the state that the piece
/// leaves where it begins with zeros (S [Dv, Dk], as everywhere here). M lies in memory in two
/// parts of bfloat16, high and low, each two tiles of 64 of its rows as mn_major_128 reads them.
inline constexpr int kTransitionTileBytes = 2 * kPanel * kKeyDim,
                     kTransitionBytes = 2 * (kKeyDim / kPanel) * kTransitionTileBytes;

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
