// Arithmetic of a math warpgroup, which owns 64 columns of V, and so 64 rows of the state S [Dv,
// Dk] in float32 registers. For every chunk (how_it_works.md has the equations; here everything is
// transposed, columns of V being the rows of wgmma's accumulators):
//
//   SK = S K^T and QS = S Q^T;
//   x = beta (V - gamma SK), V' = T x;
//   O = scale gamma QS + P V', and S <- gamma_C S + V'^T (gamma_C / gamma) K.
//
// In a chunk that forgets (record.h) T has no diagonal, and V' = x + T x. Accumulators d[32] are
// [64 columns of V x 64 tokens], registers a[16] the same as an operand, of 16 bits.
#pragma once

#include "cuda/gated_delta/chunk_sm90/packed_triangle.h"
#include "cuda/gated_delta/chunk_sm90/panel_math.cuh"
#include "cuda/gated_delta/fused_sm90/chain_layout.cuh"
#include "cuda/gated_delta/fused_sm90/record.h"
#include "cuda/hopper/matrix.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/shared_memory.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

/// S <- gamma_C S.
__device__ __forceinline__ void scale_state(float (&S)[64], uint32_t record_factors) {
  const float gamma_end = load_shared<float>(record_factors + kFactorGammaEnd);
#pragma unroll
  for (int i = 0; i < 64; i++) S[i] *= gamma_end;
  wgmma::hold(S);
}

/// A state of zeros. Made while the item is awaited: what follows jumps over the other states' code
/// at once, and jumps to code that is not there yet take long.
__device__ __forceinline__ void make_zero_state(float (&S)[64]) {
#pragma unroll
  for (int i = 0; i < 64; i++) S[i] = 0.f;
  wgmma::hold(S);
}
// ---- products: each is started, and committed; the caller waits

/// d = (d +) a triangle^T, T or P of a record [64 x 64].
template <typename Token>
__device__ __forceinline__ void multiply_triangle(float (&d)[32], const uint32_t (&a)[16],
                                                  uint32_t triangle, bool accumulate) {
  constexpr uint64_t kNextSlice = kSliceBytes / 16;  // on a descriptor
#pragma unroll
  for (int i = 0; i < 4; i++)
    wgmma::multiply_rs_n64<Token>(d, a + 4 * i, wgmma::k_major_32(triangle) + kNextSlice * i,
                                  i > 0 || accumulate);
  wgmma::commit();
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
