// A warpgroup's part of a head's state in registers, to and from the pool, whose states may have 16
// bits and either layout. S [Dv, Dk] is the transpose of the contract's state, and a warpgroup has
// 64 of its rows (columns of V) by all 128 columns, as the wgmma accumulator of shape 64 x 128.
// Kernels of other head dims than 128x128 have columns past Dk, which are zero, and may have a
// warpgroup past Dv, which has nothing there.
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

/// How far neighbours of a state in a pool lie from each other, and how many keys it has. Of 128x128
/// all are constants of the instructions: addresses made one by one were the larger part of a
/// state's load, whose code a block runs once, and so from memory.
template <StateLayout Layout>
struct SquareState {
  static constexpr int keys = kStateKeys;
  static constexpr int key_distance = Layout == StateLayout::kv ? kStateValues : 1;
  static constexpr int value_distance = Layout == StateLayout::kv ? 1 : kStateKeys;
};
struct AnyState {
  int keys, key_distance, value_distance;
};

/// The same of a state in a pool, f(register, element), from the thread's first element on. Dk is a
/// multiple of 8.
template <typename Form, typename Visit>
__device__ __forceinline__ void for_pool_elements(const Form& form, Visit visit) {
#pragma unroll
  for (int j = 0; j < 16; j++) {
    if (8 * j >= form.keys) break;
#pragma unroll
    for (int e = 0; e < 4; e++)
      visit(4 * j + e, (8 * j + (e & 1)) * form.key_distance + 8 * (e >> 1) * form.value_distance);
  }
}

enum class StateDims { square, any };

/// visit(first, form) with this thread's first element of a head's state in the pool, columns of V
/// from v0 on, as a pointer to elements, and how the others lie. Not called where v0 is past Dv.
template <StateDims Dims, typename Visit>
__device__ __forceinline__ void with_pool_state(const StatePool& pool, int64_t row, int head,
                                                int v0, int warp, int lane, Visit visit) {
  const int64_t first = state_offset(pool, row, head) +
                        state_element(pool, 2 * (lane % 4), v0 + 16 * warp + lane / 4);
  const bool is_kv = pool.layout == StateLayout::kv;
  if (Dims == StateDims::any && v0 >= pool.value_head_dim) return;
  const auto with_layout = [&](auto* data) {
    if (Dims == StateDims::any &&
        (pool.key_head_dim != kStateKeys || (is_kv && pool.value_head_dim != kStateValues))) {
      visit(data + first, AnyState{pool.key_head_dim, is_kv ? pool.value_head_dim : 1,
                                   is_kv ? 1 : pool.key_head_dim});
    } else if (is_kv) {
      visit(data + first, SquareState<StateLayout::kv>{});
    } else {
      visit(data + first, SquareState<StateLayout::vk>{});
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
/// Columns past Dk keep what they have.
template <StateDims Dims = StateDims::square>
__device__ __forceinline__ void load_pool_state(float (&S)[64], const StatePool& pool, int64_t row,
                                                int head, int v0, int warp, int lane) {
  with_pool_state<Dims>(pool, row, head, v0, warp, lane, [&](const auto* first, const auto& form) {
    for_pool_elements(form, [&](int i, int element) { S[i] = to_float(first[element]); });
  });
}
template <StateDims Dims = StateDims::square>
__device__ __forceinline__ void store_pool_state(const float (&S)[64], const StatePool& pool,
                                                 int64_t row, int head, int v0, int warp,
                                                 int lane) {
  with_pool_state<Dims>(pool, row, head, v0, warp, lane, [&](auto* first, const auto& form) {
    for_pool_elements(form, [&](int i, int element) {
      first[element] = from_float<std::remove_pointer_t<decltype(first)>>(S[i]);
    });
  });
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
