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
// wgmma. Then float32: 64 factors of S k (beta_i gamma_i |k_i|^-1), 64 of S q (scale gamma_i
// |q_i|^-1), 64 of the update (gamma_C/gamma_i |k_i|^-1), 64 of V (beta_i), and gamma_C. The
// inverse lengths are 1 unless the keys are normalised here.
//
// T = X = (I + L)^-1, whose diagonal is 1: beta, with V, costs no rounding of T. In a chunk that
// forgets T = X - I, and what it multiplies is added in float32.
inline constexpr int kTriangleBytes = 5120;
inline constexpr uint32_t kFactorKey = 0, kFactorQuery = 256, kFactorUpdate = 512,
                          kFactorBeta = 768, kFactorGammaEnd = 1024;  ///< byte offsets
inline constexpr int kFactorBytes = 1056;                             ///< whole sectors of 32 bytes
inline constexpr int kRecordBytes = 11392;  ///< 2 * 5120 + 1056, rounded up to 128
/// Whether a chunk forgets: so little of what was before is left that a token's own update may go
/// to the state unrounded. Elsewhere it is rounded once for all its uses, which makes the result
/// that of slightly different values: with equal keys and gates near 1, where updates cancel, the
/// state's error is else up to 2.4 times as large (fused_sm90.md).
__device__ __forceinline__ bool forgets(float gamma_end) { return gamma_end <= 0x1p-14f; }
/// Byte offset of row 16b of slice b, less 32 * 16b: rows of a slice are addressed by token.
__host__ __device__ constexpr uint32_t triangle_slice(int b) {
  return 1536u * b - 256u * b * (b - 1);
}

/// For which gates a launch of the chain works. Where one choice of pieces does not serve all gates
/// well the chain is launched twice, and one of the two leaves at once.
enum class Serves : int {
  any_gates,
  near_gates,  ///< where all pieces are near (fused_sm90_units.cuh)
  far_gates    ///< where any is not
};
/// What the pieces kernel has found of this run's gates.
enum Decision : int { undecided = 0, all_near, some_far };

struct KernelArguments {
  GatedDeltaParams p;
  int heads_per_block = 1;   ///< value heads of one key head that a prepare block serves
  int prefetch_chunks = 0;   ///< so many chunks on are the blocks that prepare runs after these
  int chunks_per_piece = 0;  ///< sequences are split into pieces of this many chunks; 0 = whole
  int units = 0;             ///< work items of the chain
  Serves serves = Serves::any_gates;
  /// The chain of each sequence's first piece runs beside the pieces kernel, which leaves those
  /// out, and hands its state on to the others'. Chains for far gates.
  bool first_pieces_beside = false;
  /// A block of the chain gets its first item as it comes, not by its number: blocks that start
  /// together then have neighbours, which share K, Q and records. Where items are long.
  bool items_by_arrival = false;
  int piece_units = 0;       ///< work items of the pieces kernel
  bool two_chains = false;   ///< the pieces kernel: two launches of the chain follow
  int near_chunks = 0;       ///< chunks of the pieces that are near or not,
  int near_piece_heads = 0;  ///< slots of these times value heads
  int saved_quarters = 0;    ///< prepare blocks that save initial states, four a sequence and head
  int saved_chunks = 0;      ///< of sequences of more chunks than these

  // workspace
  uint8_t* records = nullptr;  ///< [chunk slots, Hv] of kRecordBytes
  int* order = nullptr;        ///< [N] sequences, longest first
  int* next_unit = nullptr;    ///< work counters: of the chain, of the pieces kernel
  // the rest only with pieces
  float* transition_bound = nullptr;  ///< [chunk slots, Hv] log2 of a bound on |S_out| / |S_in|
  int* needs_transition = nullptr;    ///< [piece slots, Hv] the state before it matters after it
  int* decision = nullptr;            ///< a Decision
  int* first_state_ready = nullptr;   ///< [N, Hv, 2 panels] of first pieces that run beside
  float* piece_states = nullptr;      ///< [piece slots, Hv, Dv, Dk] after it, from zeros before
  float* saved_states = nullptr;      ///< [N, Hv, Dv, Dk] initial states
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

/// The same for pieces of `chunks` chunks, of which a split sequence has more than one.
__host__ __device__ inline int64_t first_piece_slot(int64_t offset, int64_t sequence, int chunks) {
  return static_cast<uint32_t>(first_chunk_slot(offset, sequence)) / static_cast<uint32_t>(chunks) +
         sequence;
}
__host__ __device__ inline int64_t piece_slots(int64_t tokens, int64_t sequences, int chunks) {
  return chunk_slots(tokens, sequences) / chunks + sequences;
}

/// Offset of a state [Dv, Dk] in an array of them, [rows, Hv].
__host__ __device__ inline int64_t head_state_offset(const KernelArguments& a, int row, int head) {
  return (static_cast<int64_t>(row) * a.p.num_value_heads + head) * kDim * kDim;
}

#ifdef __CUDACC__

/// Where a slot lies.
struct SlotPlace {
  int sequence;   // the last one whose first slot is <= the slot
  int64_t begin;  // its first token
  int64_t end;
};
/// first_slot(offset, n): of sequence n, increasing in n. The whole warp searches, the last 31
/// candidates in one load.
template <typename FirstSlot>
__device__ __forceinline__ SlotPlace place_of_slot(const GatedDeltaParams& p, int64_t slot,
                                                   int lane, FirstSlot first_slot) {
  int low = 0, high = p.num_sequences;  // the answer is in [low, high)
  while (high - low > 31) {
    const int step = (high - low + 31) / 32, n = low + (lane + 1) * step;
    const bool at_or_before = n < high && first_slot(__ldg(p.sequence_offsets + n), n) <= slot;
    const int passed = __popc(__ballot_sync(~0u, at_or_before));
    low += passed * step;
    high = min(high, low + step);
  }
  const int n = min(low + lane, p.num_sequences);
  const int64_t offset = __ldg(p.sequence_offsets + n);
  const bool at_or_before = low + lane < high && first_slot(offset, n) <= slot;
  const int last = __popc(__ballot_sync(~0u, at_or_before)) - 1;
  return {low + last, __shfl_sync(~0u, offset, last), __shfl_sync(~0u, offset, last + 1)};
}

#endif  // __CUDACC__

}  // namespace gdn::cuda::fused_sm90
