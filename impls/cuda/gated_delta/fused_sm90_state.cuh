// A math warpgroup's state in registers: S^T, 64 rows of V by 128 of K, as the wgmma accumulator of
// shape 64 x 128; to and from the pool, and to and from the workspace of pieces.
#pragma once

#include "cuda/gated_delta/fused_sm90_common.cuh"
#include "cuda/hopper/matrix.cuh"

namespace gdn::cuda::fused_sm90 {

using namespace hopper;

/// Visits the 64 state elements of this thread: f(register, v, k). Rows of V: warp w, lane l.
template <typename Visit>
__device__ __forceinline__ void for_state_elements(int warp, int lane, Visit visit) {
#pragma unroll
  for (int j = 0; j < 16; j++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      visit(4 * j + e, 16 * warp + lane / 4 + 8 * (e >> 1), 8 * j + 2 * (lane % 4) + (e & 1));
}

template <typename Element>
__device__ __forceinline__ void load_state_rows(float (&S)[64], const StatePool& pool,
                                                int64_t offset, int v0, int warp, int lane) {
  const Element* state = static_cast<const Element*>(pool.data) + offset;
  for_state_elements(warp, lane, [&](int i, int v, int k) {
    S[i] = to_float(state[state_element(pool, k, v0 + v)]);
  });
}
template <typename Element>
__device__ __forceinline__ void store_state_rows(const float (&S)[64], const StatePool& pool,
                                                 int64_t offset, int v0, int warp, int lane) {
  Element* state = static_cast<Element*>(pool.data) + offset;
  for_state_elements(warp, lane, [&](int i, int v, int k) {
    state[state_element(pool, k, v0 + v)] = from_float<Element>(S[i]);
  });
}

/// Offset of this thread's element (v, k) of a state [Dv, Dk]: pairs along k are adjacent.
__device__ __forceinline__ int64_t piece_offset(const KernelArguments& a, int piece_slot,
                                                int head) {
  return (static_cast<int64_t>(piece_slot) * a.p.num_value_heads + head) * kDim * kDim;
}
__device__ __forceinline__ void load_piece_state(float (&S)[64], const float* state, int v0,
                                                 int warp, int lane) {
  const float* row = state + (v0 + 16 * warp + lane / 4) * kDim + 2 * (lane % 4);
#pragma unroll
  for (int j = 0; j < 16; j++) {
    const float2 x = *reinterpret_cast<const float2*>(row + 8 * j),
                 y = *reinterpret_cast<const float2*>(row + 8 * kDim + 8 * j);
    S[4 * j] = x.x;
    S[4 * j + 1] = x.y;
    S[4 * j + 2] = y.x;
    S[4 * j + 3] = y.y;
  }
}
__device__ __forceinline__ void store_piece_state(const float (&S)[64], float* state, int v0,
                                                  int warp, int lane) {
  float* row = state + (v0 + 16 * warp + lane / 4) * kDim + 2 * (lane % 4);
#pragma unroll
  for (int j = 0; j < 16; j++) {
    *reinterpret_cast<float2*>(row + 8 * j) = make_float2(S[4 * j], S[4 * j + 1]);
    *reinterpret_cast<float2*>(row + 8 * kDim + 8 * j) = make_float2(S[4 * j + 2], S[4 * j + 3]);
  }
}
/// S holds M[k][k'] with k' where V columns are: kTransitionBytes of the piece.
__device__ __forceinline__ void store_transition(const float (&S)[64], uint8_t* transition,
                                                 int tile, int warp, int lane) {
#pragma unroll
  for (int j = 0; j < 16; j++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int row = 16 * warp + lane / 4 + 8 * e, k = 8 * j + 2 * (lane % 4);
      uint32_t high, low;
      split_bfloat16(S[4 * j + 2 * e], S[4 * j + 2 * e + 1], high, low);
      uint8_t* at = transition + tile * 16384 + (k >> 6) * 8192 + swizzle_128(row, (k & 63) * 2);
      *reinterpret_cast<uint32_t*>(at) = high;
      *reinterpret_cast<uint32_t*>(at + 32768) = low;
    }
}

}  // namespace gdn::cuda::fused_sm90
