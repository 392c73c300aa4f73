// How much of a state matters to the chunks behind it. A bound on the norm of a chunk's transition is the product of
// gamma_C and of max(1, beta |k|^2 - 1), the norm of I - beta k k^T, over its tokens. The transition of a gradient of the
// state is the transpose, of the same norm: the bound holds in either direction.
//
// A walk over the chunks of a piece may begin so many chunks before it, from zeros, that 2^-kForgetBits bounds what is
// left of any state there.
#pragma once

#include <cuda_runtime.h>

#include "cuda/gated_delta/chunk_sm90/chunk.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

/// What is left of a state that is forgotten: 4e-15 of it, 2^-39 of a bfloat16 rounding.
inline constexpr float kForgetBits = 48.f;

/// log2 of the bound of one chunk, from that of gamma_C and the largest beta |k|^2 of its tokens.
__device__ __forceinline__ float transition_bound(float end, float largest_step) {
  return end + kChunk * log2f(fmaxf(1.f, largest_step - 1.f));
}

/// Whole warps: of `chunks` chunks, how many of the nearest suffice to forget the state beyond them; -1 if all of them do
/// not. bound(i): log2 of the bound of the i-th nearest, of 0 <= i < chunks.
template <typename Bound>
__device__ __forceinline__ int chunks_to_forget(int chunks, int lane, const Bound& bound) {
  float before = 0.f;
#pragma unroll 1
  for (int done = 0; done < chunks; done += 32) {
    const bool inside = done + lane < chunks;
    float bits = inside ? bound(done + lane) : 0.f;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float other = __shfl_up_sync(~0u, bits, distance);
      if (lane >= distance) bits += other;
    }
    bits += before;
    const unsigned int forgotten = __ballot_sync(~0u, inside && bits <= -kForgetBits);
    if (forgotten != 0) return done + __ffs(static_cast<int>(forgotten));
    before = __shfl_sync(~0u, bits, 31);
  }
  return -1;
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
