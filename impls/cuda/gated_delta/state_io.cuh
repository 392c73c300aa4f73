// State pool rows <-> float32, in either layout and any pool dtype. Rounded once, on store.
#pragma once

#include <cstdint>

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
