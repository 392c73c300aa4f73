// Stands in for cuda/hopper/matrix.cuh: the same lane layouts, on the CPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/ptx.cuh"

namespace gdn::cuda_emulated::hopper {

inline std::uint32_t swizzle_128(std::uint32_t row, std::uint32_t byte) {
  return row * 128 + (byte ^ ((row & 7) << 4));
}

template <typename T>
T load_shared(std::uint32_t address) {
  T value;
  std::memcpy(&value, cuda_grid::dynamic_shared_memory() + address, sizeof value);
  return value;
}
template <typename T>
void store_shared(std::uint32_t address, T value) {
  std::memcpy(cuda_grid::dynamic_shared_memory() + address, &value, sizeof value);
}

inline void load_matrix_x4(std::uint32_t address, std::uint32_t& r0, std::uint32_t& r1,
                           std::uint32_t& r2, std::uint32_t& r3) {
  std::uint32_t pairs[4];
  load_matrices(pairs, cuda_grid::dynamic_shared_memory() + address);
  r0 = pairs[0], r1 = pairs[1], r2 = pairs[2], r3 = pairs[3];
}
inline void load_matrix_x4_trans(std::uint32_t address, std::uint32_t& r0, std::uint32_t& r1,
                                 std::uint32_t& r2, std::uint32_t& r3) {
  std::uint32_t pairs[4];
  load_matrices_transposed(pairs, cuda_grid::dynamic_shared_memory() + address);
  r0 = pairs[0], r1 = pairs[1], r2 = pairs[2], r3 = pairs[3];
}
// Of one matrix: only the rows that lanes 0 to 7 name.
inline std::uint32_t load_matrix(std::uint32_t address) {
  const int lane = cuda_grid::lane_index();
  const auto& slots = cuda_grid::meet("ldmatrix.x1", &address, sizeof address, nullptr);
  std::uint32_t row;
  std::memcpy(&row, slots.given[lane / 4], sizeof row);
  return load_shared<std::uint32_t>(row + 4 * static_cast<std::uint32_t>(lane % 4));
}
inline std::uint32_t load_matrix_trans(std::uint32_t address) {
  const int lane = cuda_grid::lane_index();
  const auto& slots = cuda_grid::meet("ldmatrix.x1.trans", &address, sizeof address, nullptr);
  std::uint32_t pair = 0;
  for (int i = 0; i < 2; ++i) {
    std::uint32_t row;
    std::memcpy(&row, slots.given[2 * (lane % 4) + i], sizeof row);
    const auto element = load_shared<std::uint16_t>(row + 2 * static_cast<std::uint32_t>(lane / 4));
    pair |= static_cast<std::uint32_t>(element) << (16 * i);
  }
  return pair;
}

namespace detail {

/// stmatrix of kCount matrices; lane 8 i + r gives the address of row r of matrix i.
template <int kCount>
void store_matrices(const char* name, std::uint32_t address, const std::uint32_t (&pairs)[kCount],
                    bool transposed) {
  const int lane = cuda_grid::lane_index();
  const auto& slots = cuda_grid::meet(name, &address, sizeof address, nullptr);
  for (int i = 0; i < kCount; ++i) {
    for (int half = 0; half < 2; ++half) {
      const int across = lane / 4, along = 2 * (lane % 4) + half;
      std::uint32_t row;
      std::memcpy(&row, slots.given[8 * i + (transposed ? along : across)], sizeof row);
      store_shared(row + 2 * static_cast<std::uint32_t>(transposed ? across : along),
                   static_cast<std::uint16_t>(pairs[i] >> (16 * half)));
    }
  }
}

}  // namespace detail

inline void store_matrix_x4(std::uint32_t address, std::uint32_t r0, std::uint32_t r1,
                            std::uint32_t r2, std::uint32_t r3) {
  detail::store_matrices<4>("stmatrix", address, {r0, r1, r2, r3}, false);
}
inline void store_matrix_x4_trans(std::uint32_t address, std::uint32_t r0, std::uint32_t r1,
                                  std::uint32_t r2, std::uint32_t r3) {
  detail::store_matrices<4>("stmatrix.trans", address, {r0, r1, r2, r3}, true);
}
inline void store_matrix_trans(std::uint32_t address, std::uint32_t r) {
  detail::store_matrices<1>("stmatrix.x1.trans", address, {r}, true);
}

template <typename Element>
std::uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<Element, __half>) {
    return static_cast<std::uint32_t>(__float2half_rn(low).bits) |
           static_cast<std::uint32_t>(__float2half_rn(high).bits) << 16;
  } else {
    return static_cast<std::uint32_t>(__float2bfloat16_rn(low).bits) |
           static_cast<std::uint32_t>(__float2bfloat16_rn(high).bits) << 16;
  }
}
template <typename Element>
float2 unpack(std::uint32_t pair) {
  return {cuda_emulated::detail::widened<Element>(pair, 0),
          cuda_emulated::detail::widened<Element>(pair, 1)};
}
inline void split_bfloat16(float x, float y, std::uint32_t& high, std::uint32_t& low) {
  high = pack<__nv_bfloat16>(x, y);
  const float2 h = unpack<__nv_bfloat16>(high);
  low = pack<__nv_bfloat16>(x - h.x, y - h.y);
}
inline float exp2_flush(float x) { return exp2_flushed(x); }

// mma_m16n8k16 and mma_m16n8k8_tf32: those of cuda/ptx.cuh.
inline void mma_m8n8k8_f16(float (&d)[4], std::uint32_t a, std::uint32_t b) {
  cuda_emulated::mma_m16n8k16<__half>(d, {a, 0, 0, 0}, b, 0);
}

}  // namespace gdn::cuda_emulated::hopper
