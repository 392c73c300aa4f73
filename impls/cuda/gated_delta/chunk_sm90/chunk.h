// How the chunk kernels for Hopper cut sequences into chunks, and where a chunk has its place in
// the workspace. Plain C++ that host and device share (nvcc takes constexpr functions as device
// code).
//
// This folder holds what kernels for Hopper's tensor cores (wgmma) have in common that work chunk
// by chunk on sequences of a gated delta rule: steps of a warpgroup or of a warp on one chunk and
// value head, in registers and shared memory. It knows no kernel: neither its roles and its rings,
// nor the record that it hands on, nor how it divides the work. What has nothing to do with chunks
// is in hopper/. The folder chunk/ is the same for the kernels of mma.sync, which run on every card
// since compute capability 8.0; the two have no code in common, since their tiles lie otherwise in
// registers and in shared memory.
#pragma once

#include <cstdint>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

inline constexpr int kChunk = 64;  ///< tokens of a chunk (C)

constexpr std::int64_t chunks_of(std::int64_t tokens) { return (tokens + kChunk - 1) / kChunk; }

// ---- chunk slots: places in the workspace that need no list, since they are made of the offsets

/// First chunk slot of a sequence. Slots of sequence n start at offsets[n]/64 + n: strictly
/// increasing in n, and with room for ceil(length/64) chunks whatever the lengths are.
constexpr std::int64_t first_chunk_slot(std::int64_t offset, std::int64_t sequence) {
  return offset / kChunk + sequence;
}
/// Chunk slots that suffice for any lengths of `sequences` sequences with `tokens` tokens in all.
constexpr std::int64_t chunk_slots(std::int64_t tokens, std::int64_t sequences) {
  return tokens / kChunk + sequences;
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
