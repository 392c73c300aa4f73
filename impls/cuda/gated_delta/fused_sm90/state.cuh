// A math warpgroup's part of the state in registers: S [Dv, Dk] is the transpose of the contract's
// state, and a warpgroup has 64 of its rows (columns of V) by all 128 columns, as the wgmma
// accumulator of shape 64 x 128. To and from the pool (chunk_sm90/pool_state.cuh), and to and from
// the workspace of pieces, which is float32 (chunk_sm90/workspace_state.cuh).
#pragma once

#include "cuda/gated_delta/chunk_sm90/pool_state.cuh"
#include "cuda/gated_delta/chunk_sm90/workspace_state.cuh"
#include "cuda/gated_delta/fused_sm90/params.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

using namespace hopper;

// The accumulator's shape: 64 registers a thread are 64 columns of V by all of K.
static_assert(kPanel * kKeyDim == 64 * 128 && kPanel == 64 && kKeyDim == kStateKeys &&
              kValueDim == kStateValues);

/// Whether the state that a first piece hands on is there, of one panel of V.
template <typename Params>
__device__ __forceinline__ int* first_state_ready(const Params& a, int sequence, int head,
                                                  int panel) {
  return a.work.first_state_ready +
         2 * slices_of(a) * (int64_t{sequence} * a.p.num_value_heads + head) + panel;
}
/// S holds 64 rows of M, each where a state has a column of V, of which `tile` says the number: to
/// the kTransitionBytes of the piece.
__device__ __forceinline__ void store_transition(const float (&S)[64], uint8_t* transition,
                                                 int tile, int warp, int lane) {
#pragma unroll
  for (int j = 0; j < 16; j++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int row = 16 * warp + lane / 4 + 8 * e, k = 8 * j + 2 * (lane % 4);
      uint32_t high, low;
      split_bfloat16(S[4 * j + 2 * e], S[4 * j + 2 * e + 1], high, low);
      uint8_t* at = transition + tile * kTransitionTileBytes + (k >> 6) * 8192 +
                    swizzle_128(row, (k & 63) * 2);
      *reinterpret_cast<uint32_t*>(at) = high;
      *reinterpret_cast<uint32_t*>(at + 2 * kTransitionTileBytes) = low;
    }
}

}  // namespace gdn::GDN_CUDA_TARGET::fused_sm90
