// A math warpgroup's part of the state in registers: S [Dv, Dk] is the transpose of the contract's
// state, and a warpgroup has 64 of its rows (columns of V) by all 128 columns, as the wgmma
// accumulator of shape 64 x 128. To and from the pool, whose states may have 16 bits and either
// layout, and to and from the workspace of pieces, which is float32.
#pragma once

#include <type_traits>

#include "cuda/gated_delta/fused_sm90/params.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::fused_sm90 {

using namespace hopper;

// The accumulator's shape: 64 registers a thread are 64 columns of V by all of K.
static_assert(kPanel * kKeyDim == 64 * 128 && kPanel == 64);

/// Visits the 64 state elements of this thread: f(register, v, k). Rows of V: warp w, lane l.
template <typename Visit>
__device__ __forceinline__ void for_state_elements(int warp, int lane, Visit visit) {
#pragma unroll
  for (int j = 0; j < 16; j++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      visit(4 * j + e, 16 * warp + lane / 4 + 8 * (e >> 1), 8 * j + 2 * (lane % 4) + (e & 1));
}

/// The same of a state in a pool, f(register, element), from the thread's first element on: the
/// distances are constants of the instruction. Addresses made one by one were the larger part of a
/// state's load: code that a block runs once comes from memory.
template <StateLayout Layout, typename Visit>
__device__ __forceinline__ void for_pool_elements(Visit visit) {
#pragma unroll
  for (int j = 0; j < 16; j++)
#pragma unroll
    for (int e = 0; e < 4; e++) {
      const int v = 8 * (e >> 1), k = 8 * j + (e & 1);
      visit(4 * j + e, Layout == StateLayout::kv ? k * kValueDim + v : v * kKeyDim + k);
    }
}

/// visit(first) with this thread's first element of a head's state in the pool, columns of V from
/// v0 on, as a pointer to elements, and its layout as a constant.
template <typename Visit>
__device__ __forceinline__ void with_pool_state(const StatePool& pool, int64_t row, int head,
                                                int v0, int warp, int lane, Visit visit) {
  const int64_t first = state_offset(pool, row, head) +
                        state_element(pool, 2 * (lane % 4), v0 + 16 * warp + lane / 4);
  const auto with_layout = [&](auto* data) {
    if (pool.layout == StateLayout::kv) {
      visit(data + first, std::integral_constant<StateLayout, StateLayout::kv>{});
    } else {
      visit(data + first, std::integral_constant<StateLayout, StateLayout::vk>{});
    }
  };
  if (pool.dtype == DType::float32) {
    with_layout(static_cast<float*>(pool.data));
  } else if (pool.dtype == DType::bfloat16) {
    with_layout(static_cast<__nv_bfloat16*>(pool.data));
  } else {
    with_layout(static_cast<__half*>(pool.data));
  }
}
__device__ __forceinline__ void load_pool_state(float (&S)[64], const StatePool& pool, int64_t row,
                                                int head, int v0, int warp, int lane) {
  with_pool_state(pool, row, head, v0, warp, lane, [&](const auto* first, auto layout) {
    for_pool_elements<layout()>([&](int i, int element) { S[i] = to_float(first[element]); });
  });
}
__device__ __forceinline__ void store_pool_state(const float (&S)[64], const StatePool& pool,
                                                 int64_t row, int head, int v0, int warp,
                                                 int lane) {
  with_pool_state(pool, row, head, v0, warp, lane, [&](auto* first, auto layout) {
    for_pool_elements<layout()>([&](int i, int element) {
      first[element] = from_float<std::remove_pointer_t<decltype(first)>>(S[i]);
    });
  });
}

/// A state [Dv, Dk] of the workspace.
__device__ __forceinline__ void load_piece_state(float (&S)[64], const float* state, int v0,
                                                 int warp, int lane) {
  const float* row = state + (v0 + 16 * warp + lane / 4) * kKeyDim + 2 * (lane % 4);
#pragma unroll
  for (int j = 0; j < 16; j++) {
    const float2 x = *reinterpret_cast<const float2*>(row + 8 * j),
                 y = *reinterpret_cast<const float2*>(row + 8 * kKeyDim + 8 * j);
    S[4 * j] = x.x;
    S[4 * j + 1] = x.y;
    S[4 * j + 2] = y.x;
    S[4 * j + 3] = y.y;
  }
}
__device__ __forceinline__ void store_piece_state(const float (&S)[64], float* state, int v0,
                                                  int warp, int lane) {
  float* row = state + (v0 + 16 * warp + lane / 4) * kKeyDim + 2 * (lane % 4);
#pragma unroll
  for (int j = 0; j < 16; j++) {
    *reinterpret_cast<float2*>(row + 8 * j) = make_float2(S[4 * j], S[4 * j + 1]);
    *reinterpret_cast<float2*>(row + 8 * kKeyDim + 8 * j) = make_float2(S[4 * j + 2], S[4 * j + 3]);
  }
}
/// Whether the state that a first piece hands on is there, of one panel of V.
template <typename Params>
__device__ __forceinline__ int* first_state_ready(const Params& a, int sequence, int head,
                                                  int panel) {
  return a.work.first_state_ready + 2 * (int64_t{sequence} * a.p.num_value_heads + head) + panel;
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
