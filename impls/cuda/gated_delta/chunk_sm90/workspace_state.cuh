// A warpgroup's part of a head's state in registers, to and from a state in the workspace, which is
// [Dv, Dk] of float32 and dense. In registers it lies as pool_state.cuh says.
#pragma once

#include "cuda/gated_delta/chunk_sm90/pool_state.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

/// A state [Dv, Dk] of the workspace.
__device__ __forceinline__ void load_piece_state(float (&S)[64], const float* state, int v0,
                                                 int warp, int lane) {
  const float* row = state + (v0 + 16 * warp + lane / 4) * kStateKeys + 2 * (lane % 4);
#pragma unroll
  for (int j = 0; j < 16; j++) {
    const float2 x = *reinterpret_cast<const float2*>(row + 8 * j),
                 y = *reinterpret_cast<const float2*>(row + 8 * kStateKeys + 8 * j);
    S[4 * j] = x.x;
    S[4 * j + 1] = x.y;
    S[4 * j + 2] = y.x;
    S[4 * j + 3] = y.y;
  }
}
__device__ __forceinline__ void store_piece_state(const float (&S)[64], float* state, int v0,
                                                  int warp, int lane) {
  float* row = state + (v0 + 16 * warp + lane / 4) * kStateKeys + 2 * (lane % 4);
#pragma unroll
  for (int j = 0; j < 16; j++) {
    *reinterpret_cast<float2*>(row + 8 * j) = make_float2(S[4 * j], S[4 * j + 1]);
    *reinterpret_cast<float2*>(row + 8 * kStateKeys + 8 * j) =
        make_float2(S[4 * j + 2], S[4 * j + 3]);
  }
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
