// How the chunk kernels for Hopper cut a sequence into pieces of equally many chunks, and which slots those have. Plain
// C++ that host and device share.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/chunk_sm90/chunk.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

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

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
