// What the two kernels of fused_sm90 share: their arguments, the record of one (chunk, value head),
// and how chunks and work items are numbered from lengths that only the device knows.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/arguments.cuh"

namespace gdn::cuda::fused_sm90 {

inline constexpr int kChunk = 64;  ///< tokens per chunk (C)
inline constexpr int kDim = 128;   ///< Dk = Dv

// ---- record: what the prepare kernel leaves for the chain, per (chunk slot, value head)
// ------------ T [64 x 64] and P [64 x 64], token dtype, lower triangles as four column slices of
// 16: slice b holds rows 16b..63 of columns 16b..16b+15, 32 bytes a row, 32-byte swizzle, ready for
// wgmma. Then float32: 64 factors of S k (gamma_i |k_i|^-1), 64 of S q (scale gamma_i |q_i|^-1), 64
// of the update (gamma_C/gamma_i |k_i|^-1), and gamma_C. The inverse lengths are 1 unless the keys
// are normalised here.
inline constexpr int kTriangleBytes = 5120;
inline constexpr int kFactorBytes = 800;    ///< whole sectors of 32 bytes
inline constexpr int kRecordBytes = 11136;  ///< 2 * 5120 + 800, rounded up to 128
/// Byte offset of row 16b of slice b, less 32 * 16b: rows of a slice are addressed by token.
__host__ __device__ constexpr uint32_t triangle_slice(int b) {
  return 1536u * b - 256u * b * (b - 1);
}

struct KernelArguments {
  GatedDeltaParams p;
  int heads_per_block = 1;   ///< value heads of one key head that a prepare block serves
  int chunks_per_piece = 0;  ///< sequences are split into pieces of this many chunks; 0 = whole
  int units = 0;             ///< work items of the chain
  int piece_units = 0;       ///< work items of the pieces kernel

  // workspace
  uint8_t* records = nullptr;  ///< [chunk slots, Hv] of kRecordBytes
  int* order = nullptr;        ///< [N] sequences, longest first
  int* next_unit = nullptr;    ///< work counters: of the chain, of the pieces kernel
  // the rest only with pieces
  float* transition_bound = nullptr;  ///< [chunk slots, Hv] log2 of a bound on |S_out| / |S_in|
  int* needs_transition = nullptr;    ///< [piece slots, Hv] the state before it matters after it
  float* piece_states = nullptr;      ///< [piece slots, Hv, Dv, Dk] state after, from zeros before
  uint8_t* transitions = nullptr;     ///< [piece slots, Hv] of kTransitionBytes
};

/// M of a piece (S_out = M S_in + piece state): bfloat16 parts high and low, each two tiles of 64
/// rows k' as mn_major_128 reads them, M[k][k'] at row k', column k.
inline constexpr int kTransitionBytes = 4 * 16384;

/// First chunk slot of a sequence. Slots of sequence n start at offsets[n]/64 + n: strictly
/// increasing in n, and with room for ceil(length/64) chunks whatever the lengths are.
__host__ __device__ inline int64_t first_chunk_slot(int64_t offset, int64_t sequence) {
  return offset / kChunk + sequence;
}
/// Chunk slots that suffice for any lengths of `sequences` sequences with `tokens` tokens in all.
__host__ __device__ inline int64_t chunk_slots(int64_t tokens, int64_t sequences) {
  return tokens / kChunk + sequences;
}

/// The same for pieces of `chunks` chunks.
__host__ __device__ inline int64_t first_piece_slot(int64_t offset, int64_t sequence, int chunks) {
  return first_chunk_slot(offset, sequence) / chunks + sequence;
}
__host__ __device__ inline int64_t piece_slots(int64_t tokens, int64_t sequences, int chunks) {
  return chunk_slots(tokens, sequences) / chunks + sequences;
}

}  // namespace gdn::cuda::fused_sm90
