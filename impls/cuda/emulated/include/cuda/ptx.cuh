// Stands in for cuda/ptx.cuh: what its instructions do, on the CPU. Products are summed in float64
// and rounded once; the hardware truncates on the way, so results differ from a GPU's in the last
// bits of float32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#ifdef __FMA__
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cuda/shared_memory.cuh"
#include "interface/stochastic_rounding.h"

namespace gdn::cuda_emulated {

inline void copy16_async(void* shared, const void* source) {
  cuda_grid::add_copy(shared, source, true);
}
inline void copy16_async_if(bool valid, void* shared, const void* source) {
  cuda_grid::add_copy(shared, source, valid);
}
inline void commit_copies() { cuda_grid::close_copy_group(); }
template <int Pending>
void wait_copies() {
  cuda_grid::wait_copy_groups(Pending);
}

inline uint4 load_evict_last(const void* source) { return *static_cast<const uint4*>(source); }

inline void block_barrier() { cuda_grid::barrier(0, 0); }
template <int name>
void named_barrier(int num_threads) {
  cuda_grid::barrier(name, num_threads);
}

inline int lane_anew() { return cuda_grid::lane_index(); }
inline int warp_anew() { return static_cast<int>(threadIdx.x / 32); }

inline float exp2_flushed(float x) {
  const float result = exp2f(x);
  return result < std::numeric_limits<float>::min() ? 0.0f : result;
}

inline float fma_toward_zero(float a, float b, float c) {
  const double exact = static_cast<double>(a) * b + c;  // but for bits far below a float's last
  const auto nearest = static_cast<float>(exact);
  return std::abs(nearest) > std::abs(exact) ? std::nextafter(nearest, 0.0f) : nearest;
}
inline std::uint32_t halves_toward_zero(float low, float high) {
  // Rounding by chance with the number 0 goes toward zero, but to infinity from 65536 on.
  const auto half = [](float x) -> std::uint32_t {
    if (std::isnan(x)) return 0x7fffu;
    if (std::isfinite(x)) x = std::clamp(x, -65504.0f, 65504.0f);
    return round_to_float16(std::bit_cast<std::uint32_t>(x), 0);
  };
  return half(low) | half(high) << 16;
}

namespace detail {

/// 16-bit element `column` of the row whose address lane `row_lane` gave.
inline std::uint16_t row_element(const cuda_grid::WarpSlots& slots, int row_lane, int column) {
  const std::uint16_t* row;
  std::memcpy(&row, slots.given[row_lane], sizeof row);
  return row[column];
}

/// What a lane hands to a product.
struct Operands {
  std::uint32_t a[4];
  std::uint32_t b[2];
  float sums[4];
};

template <typename Element>
float widened(std::uint32_t pair, int which) {
  const auto bits = static_cast<std::uint16_t>(pair >> (16 * which));
  if constexpr (std::is_same_v<Element, __half>) {
    return __half2float({bits});
  } else {
    return __bfloat162float({bits});
  }
}

/// Vectors by name: GCC makes code four times slower of loops over columns.
using FourDoubles = double __attribute__((vector_size(4 * sizeof(double))));
using FourFloats = float __attribute__((vector_size(4 * sizeof(float))));

/// Those at a place in memory, by one load: of a memcpy of several GCC makes a copy on the stack by halves of vectors, for
/// which each reader then waits.
inline FourDoubles four_at(const double* place) {
  using AnyPlace = double __attribute__((vector_size(32), aligned(8), may_alias));
  return *reinterpret_cast<const AnyPlace*>(place);
}

/// sum += a b. The product of two numbers of at most 26 bits is exact in float64, and so a fused sum has the bits of one
/// that is not.
inline void add_product(FourDoubles& sum, double a, const FourDoubles& b) {
#ifdef __FMA__
  sum = _mm256_fmadd_pd(_mm256_set1_pd(a), b, sum);
#else
  sum += a * b;
#endif
}

/// sums[r][0 .. 7] = a[r][0 .. kDepth-1] b for kRows rows, b [kDepth x 8]. Rows together, since each sum waits for the one
/// before it.
template <int kRows, int kDepth>
void multiply_rows(const double (*a)[kDepth], const double (*b)[8], double (*sums)[8]) {
  FourDoubles held[kRows][2] = {};
  for (int k = 0; k < kDepth; ++k) {
    for (int half = 0; half < 2; ++half) {
      const FourDoubles line = four_at(b[k] + 4 * half);
      for (int r = 0; r < kRows; ++r) add_product(held[r][half], a[r][k], line);
    }
  }
  std::memcpy(sums, held, sizeof held);
}

/// a [16 x kDepth] and b [kDepth x 8] of one product.
template <int kDepth>
struct Matrices {
  double a[16][kDepth];
  double b[kDepth][8];
};

/// sums += a b; each lane has four of the sums: rows lane / 4 and lane / 4 + 8, columns
/// 2 (lane % 4) and the next.
template <int kDepth>
void multiply(cuda_grid::WarpSlots& slots, const Matrices<kDepth>& matrices) {
  double sums[16][8];
  for (int m = 0; m < 16; m += 4) multiply_rows<4>(matrices.a + m, matrices.b, sums + m);
  for (int lane = 0; lane < 32; ++lane) {
    const double* const upper = &sums[lane / 4][2 * (lane % 4)];
    const double* const lower = &sums[lane / 4 + 8][2 * (lane % 4)];
    FourFloats own;
    std::memcpy(&own, slots.given[lane] + offsetof(Operands, sums), sizeof own);
    const FourDoubles sum = {upper[0], upper[1], lower[0], lower[1]};
    own = __builtin_convertvector(__builtin_convertvector(own, FourDoubles) + sum, FourFloats);
    std::memcpy(slots.result[lane], &own, sizeof own);
  }
}

template <typename Element>
void multiply_m16n8k16(cuda_grid::WarpSlots& slots) {
  Matrices<16> matrices;
  for (int lane = 0; lane < 32; ++lane) {
    Operands held;
    std::memcpy(&held, slots.given[lane], sizeof held);
    const int group = lane / 4;
    for (int e = 0; e < 8; ++e) {  // register e / 2, half e % 2
      const int k = 2 * (lane % 4) + e % 2;
      matrices.a[group + 8 * (e / 2 % 2)][k + 8 * (e / 4)] = widened<Element>(held.a[e / 2], e % 2);
      if (e < 4) matrices.b[k + 8 * (e / 2)][group] = widened<Element>(held.b[e / 2], e % 2);
    }
  }
  multiply(slots, matrices);
}

inline void multiply_m16n8k8_tf32(cuda_grid::WarpSlots& slots) {
  const auto tf32 = [](std::uint32_t bits) { return __uint_as_float(bits & 0xffffe000u); };
  Matrices<8> matrices;
  for (int lane = 0; lane < 32; ++lane) {
    Operands held;
    std::memcpy(&held, slots.given[lane], sizeof held);
    const int group = lane / 4;
    for (int e = 0; e < 4; ++e) {
      const int k = lane % 4 + 4 * (e / 2);
      matrices.a[group + 8 * (e % 2)][k] = tf32(held.a[e]);
      if (e % 2 == 0) matrices.b[k][group] = tf32(held.b[e / 2]);
    }
  }
  multiply(slots, matrices);
}

inline void product(const char* name, float* sums, const std::uint32_t (&a)[4], std::uint32_t b0,
                    std::uint32_t b1, void (*complete)(cuda_grid::WarpSlots&)) {
  const Operands own = {{a[0], a[1], a[2], a[3]}, {b0, b1}, {sums[0], sums[1], sums[2], sums[3]}};
  const auto& slots = cuda_grid::meet(name, &own, sizeof own, complete);
  std::memcpy(sums, slots.result[cuda_grid::lane_index()], 4 * sizeof(float));
}

}  // namespace detail

inline void load_matrices(std::uint32_t (&pairs)[4], const void* row) {
  const auto& slots = cuda_grid::meet("ldmatrix", &row, sizeof row, nullptr);
  const int lane = cuda_grid::lane_index();
  for (int matrix = 0; matrix < 4; ++matrix) {
    const int row_lane = 8 * matrix + lane / 4;
    const int column = 2 * (lane % 4);
    pairs[matrix] = detail::row_element(slots, row_lane, column) |
                    static_cast<std::uint32_t>(detail::row_element(slots, row_lane, column + 1))
                        << 16;
  }
}

inline void load_matrices_transposed(std::uint32_t (&pairs)[4], const void* row) {
  const auto& slots = cuda_grid::meet("ldmatrix.trans", &row, sizeof row, nullptr);
  const int lane = cuda_grid::lane_index();
  for (int matrix = 0; matrix < 4; ++matrix) {
    const int row_lane = 8 * matrix + 2 * (lane % 4);
    const int column = lane / 4;
    pairs[matrix] = detail::row_element(slots, row_lane, column) |
                    static_cast<std::uint32_t>(detail::row_element(slots, row_lane + 1, column))
                        << 16;
  }
}

template <typename Element>
void mma_m16n8k16(float* sums, const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  detail::product("mma.m16n8k16", sums, a, b0, b1, detail::multiply_m16n8k16<Element>);
}

inline void mma_m16n8k8_tf32(float (&sums)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1) {
  detail::product("mma.m16n8k8.tf32", sums, a, b0, b1, detail::multiply_m16n8k8_tf32);
}

}  // namespace gdn::cuda_emulated
