// A warpgroup's part of a head's state in registers, to and from the pool, whose states may have 16
// bits and either layout. S [Dv, Dk] is the transpose of the contract's state, and a warpgroup has
// 64 of its rows (columns of V) by all 128 columns, as the wgmma accumulator of shape 64 x 128.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/gated_delta/state_io.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

inline constexpr int kStateKeys = 128, kStateValues = 128;  ///< Dk, Dv

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
      visit(4 * j + e, Layout == StateLayout::kv ? k * kStateValues + v : v * kStateKeys + k);
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

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
