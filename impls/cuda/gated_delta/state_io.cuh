// State pool rows <-> float32, in either layout and any pool dtype. Rounded once, on store.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/target.h"
#include "interface/problem.h"

namespace gdn::GDN_CUDA_TARGET {

/// The pool as a kernel takes it. One row: Hv heads of Dk x Dv values in `layout`, then padding
/// that is never touched.
struct StatePool {
  void* data = nullptr;
  DType dtype = DType::float32;
  StateLayout layout = StateLayout::kv;
  std::int32_t key_head_dim = 0;
  std::int32_t value_head_dim = 0;
  std::int64_t row_stride = 0;  ///< elements
  bool read = false;            ///< there is an initial state; otherwise it is zero
  bool write = false;           ///< the final state is wanted
};

#ifdef __CUDACC__

/// Element offset of a head's state in row `row`.
__device__ __forceinline__ std::int64_t state_offset(const StatePool& pool, std::int64_t row,
                                                     int head) {
  return row * pool.row_stride + static_cast<std::int64_t>(head) * pool.key_head_dim *
                                     static_cast<std::int64_t>(pool.value_head_dim);
}

/// Offset of element (k, v) within a head's state.
__device__ __forceinline__ int state_element(const StatePool& pool, int k, int v) {
  return pool.layout == StateLayout::kv ? k * pool.value_head_dim + v : v * pool.key_head_dim + k;
}

/// Element (k, v) of a head's initial state: zero where the problem has none.
__device__ __forceinline__ float load_state(const StatePool& pool, std::int64_t row, int head,
                                            int k, int v) {
  if (!pool.read) return 0.0f;
  return load_element(pool.data, state_offset(pool, row, head) + state_element(pool, k, v),
                      pool.dtype);
}

/// Nothing where the problem wants no final state, or the row is negative.
__device__ __forceinline__ void store_state(const StatePool& pool, std::int64_t row, int head,
                                            int k, int v, float value) {
  if (!pool.write || row < 0) return;
  store_element(pool.data, state_offset(pool, row, head) + state_element(pool, k, v), pool.dtype,
                value);
}

/// body(pointer to the pool's elements), which has their type: a loop inside it does not ask for the type of each.
template <typename Body>
__device__ __forceinline__ void with_state_elements(const StatePool& pool, const Body& body) {
  if (pool.dtype == DType::float32) return body(static_cast<float*>(pool.data));
  if (pool.dtype == DType::bfloat16) return body(static_cast<__nv_bfloat16*>(pool.data));
  body(static_cast<__half*>(pool.data));
}

/// Column v of a head's initial state, all Dk elements of it: zeros where the problem has none.
template <int Dk>
__device__ __forceinline__ void load_state_column(const StatePool& pool, std::int64_t row, int head,
                                                  int v, float (&column)[Dk]) {
#pragma unroll
  for (int k = 0; k < Dk; ++k) column[k] = 0;
  if (!pool.read) return;
  const std::int64_t first = state_offset(pool, row, head) + state_element(pool, 0, v);
  const int step = state_element(pool, 1, 0);
  with_state_elements(pool, [&](const auto* elements) {
#pragma unroll
    for (int k = 0; k < Dk; ++k) column[k] = to_float(elements[first + k * step]);
  });
}

/// The inverse. Nothing where the problem wants no final state, or the row is negative.
template <int Dk>
__device__ __forceinline__ void store_state_column(const StatePool& pool, std::int64_t row,
                                                   int head, int v, const float (&column)[Dk]) {
  if (!pool.write || row < 0) return;
  const std::int64_t first = state_offset(pool, row, head) + state_element(pool, 0, v);
  const int step = state_element(pool, 1, 0);
  with_state_elements(pool, [&](auto* elements) {
#pragma unroll
    for (int k = 0; k < Dk; ++k) {
      elements[first + k * step] = from_float<std::remove_pointer_t<decltype(elements)>>(column[k]);
    }
  });
}

/// Calls put(k, v, value) for every k in [0, Dk) and v in [v_begin, v_end), shared out over
/// num_threads threads so that consecutive ones read consecutive elements in either layout. All
/// zeros where there is no initial state. No barrier: put a __syncthreads() after it.
template <typename Put>
__device__ __forceinline__ void load_state_tile(const StatePool& pool, std::int64_t row, int head,
                                                int v_begin, int v_end, int thread, int num_threads,
                                                Put put) {
  const int columns = v_end - v_begin;
  const int count = pool.key_head_dim * columns;
  const std::int64_t base = pool.read ? state_offset(pool, row, head) : 0;
  for (int i = thread; i < count; i += num_threads) {
    const bool kv = pool.layout == StateLayout::kv;
    const int k = kv ? i / columns : i % pool.key_head_dim;
    const int v = v_begin + (kv ? i % columns : i / pool.key_head_dim);
    put(k, v,
        pool.read ? load_element(pool.data, base + state_element(pool, k, v), pool.dtype) : 0.0f);
  }
}

/// The inverse: stores get(k, v). Nothing where no final state is wanted, or the row is negative.
template <typename Get>
__device__ __forceinline__ void store_state_tile(const StatePool& pool, std::int64_t row, int head,
                                                 int v_begin, int v_end, int thread,
                                                 int num_threads, Get get) {
  if (!pool.write || row < 0) return;
  const int columns = v_end - v_begin;
  const int count = pool.key_head_dim * columns;
  const std::int64_t base = state_offset(pool, row, head);
  for (int i = thread; i < count; i += num_threads) {
    const bool kv = pool.layout == StateLayout::kv;
    const int k = kv ? i / columns : i % pool.key_head_dim;
    const int v = v_begin + (kv ? i % columns : i / pool.key_head_dim);
    store_element(pool.data, base + state_element(pool, k, v), pool.dtype, get(k, v));
  }
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
