// The record of one chunk and value head: what the chain needs of it besides K, Q and V. The
// prepare kernel leaves one in memory for each (chunk slot, value head), the one-launch kernel
// makes them in shared memory.
//
// T [64 x 64] and P [64 x 64], token dtype, packed lower triangles (packed_triangle.h). Then the
// factors, float32, 64 tokens each:
//
//   of S k      beta_i gamma_i |k_i|^-1
//   of S q      scale gamma_i |q_i|^-1
//   of update   (gamma_C / gamma_i) |k_i|^-1
//   of V        beta_i
//   gamma_C     one value, repeated to fill its sector of 32 bytes
//
// The inverse lengths are 1 unless keys and queries are normalised here.
//
// T is L^-1 (how_it_works.md), whose diagonal is 1: since beta goes with V, the diagonal costs no
// rounding. In a chunk that forgets T is stored as L^-1 - I, and what it multiplies is added to the
// product in float32.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/chunk_sm90/packed_triangle.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

using namespace chunk_sm90;

/// Byte offsets in the factors.
inline constexpr std::uint32_t kFactorKey = 0, kFactorQuery = 256, kFactorUpdate = 512,
                               kFactorBeta = 768, kFactorGammaEnd = 1024;
inline constexpr int kFactorBytes = 1056;   ///< whole sectors of 32 bytes
inline constexpr int kRecordBytes = 11392;  ///< T, P and factors, rounded up to 128
static_assert(kRecordBytes % 128 == 0 && kRecordBytes >= 2 * kTriangleBytes + kFactorBytes &&
              kRecordBytes < 2 * kTriangleBytes + kFactorBytes + 128);

/// A record in shared memory: T and P open (packed_triangle.h), then the factors.
struct RecordBuffer {
  static constexpr std::uint32_t kP = kOpenTriangleBytes, kFactors = 2 * kOpenTriangleBytes,
                                 kBytes = 17664;
};
static_assert(RecordBuffer::kBytes % 128 == 0 &&
              RecordBuffer::kBytes >= RecordBuffer::kFactors + kFactorBytes &&
              RecordBuffer::kBytes < RecordBuffer::kFactors + kFactorBytes + 256);

/// Whether a chunk forgets: so little of what was before is left that a token's own update may go
/// to the state unrounded. Elsewhere it is rounded once for all its uses, which makes the result
/// that of slightly different values: with equal keys and gates near 1, where updates cancel, the
/// state's error is else up to 2.4 times as large (numerics.md).
constexpr bool forgets(float gamma_end) { return gamma_end <= 0x1p-14f; }

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
