// Matrix products of 16 x 16 blocks by one warp, on the tensor cores that every GPU since sm_80 has
// (mma.sync): the building block of the chunkwise and fused kernels, for 16-bit and float32
// elements.
//
// The one product is   acc[m][n] += sum over c of A[m][c] * B[n][c]   (A B^T on 16 x 16 blocks).
// A, B and acc all lie over the lanes in the same *fragment order*: lane l holds the four pairs
//
//     pair 0: (row g,     columns 2t, 2t+1)      pair 2: (row g,     columns 2t+8, 2t+9)
//     pair 1: (row g + 8, columns 2t, 2t+1)      pair 3: (row g + 8, columns 2t+8, 2t+9)
//
// with g = l / 4 and t = l % 4. So a result, rounded to the element type, is an operand of the next
// product without any data moving between lanes, and a block can be stored to and loaded from
// memory in fragment order (256 elements, 16 bytes a lane at a time, no bank conflicts).
//
// 16-bit elements: mma.m16n8k16, float32 accumulation. The contraction index c of pair q of A meets
// the same c of B, whatever order the hardware gives it. float32 elements: mma.m16n8k8 in TF32,
// each operand split in a high part (11 significant bits, by truncation) and the rounded rest: a b
// = a1 b1 + a1 b0 + a0 b1 + O(2^-21 |a b|). The tensor cores truncate when they accumulate; a
// 16-deep product is therefore summed from zero and added in float32 with rounding to nearest, so
// that long sums have the error of float32 sums.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/ptx.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

constexpr int kFragmentElements = 256;

/// Blocks that `dim` rows or columns take; what they hold past `dim` is zero.
constexpr __host__ __device__ int blocks_of_16(int dim) { return (dim + 15) / 16; }

#ifdef __CUDACC__

/// Two neighbours along the contraction: a 32-bit register of two 16-bit elements, or two floats.
template <typename Element>
using Pair = std::conditional_t<std::is_same_v<Element, float>, float2, std::uint32_t>;

/// A 16 x 16 block of operand elements.
template <typename Element>
struct Fragment {
  Pair<Element> pair[4];
};

/// A 16 x 16 block of float32 sums; value[2q], value[2q + 1] are the elements of pair q.
struct Accumulator {
  float value[8];
};

/// Position of element e (0..7) of this lane's share of a block.
__device__ __forceinline__ int fragment_row(int lane, int e) { return lane / 4 + 8 * (e / 2 % 2); }
__device__ __forceinline__ int fragment_column(int lane, int e) {
  return 2 * (lane % 4) + e % 2 + 8 * (e / 4);
}

template <typename Element>
__device__ __forceinline__ Pair<Element> make_element_pair(float first, float second) {
  if constexpr (std::is_same_v<Element, float>) {
    return make_float2(first, second);
  } else {
    return round_to_pair<Element>(first, second);
  }
}

template <typename Element>
__device__ __forceinline__ float2 widen(Pair<Element> pair) {
  if constexpr (std::is_same_v<Element, float>) {
    return pair;
  } else if constexpr (std::is_same_v<Element, __half>) {
    return __half22float2(*reinterpret_cast<const __half2*>(&pair));
  } else {
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
  }
}

template <typename Element>
__device__ __forceinline__ Fragment<Element> round_to_fragment(const Accumulator& sums) {
  Fragment<Element> result;
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    result.pair[q] = make_element_pair<Element>(sums.value[2 * q], sums.value[2 * q + 1]);
  }
  return result;
}

template <typename Element>
__device__ __forceinline__ Accumulator widen(const Fragment<Element>& fragment) {
  Accumulator result;
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    const float2 pair = widen<Element>(fragment.pair[q]);
    result.value[2 * q] = pair.x;
    result.value[2 * q + 1] = pair.y;
  }
  return result;
}

__device__ __forceinline__ Accumulator zero_accumulator() {
  return Accumulator{{0, 0, 0, 0, 0, 0, 0, 0}};
}

// ---- the product

namespace detail {

/// x = high + low to 2^-22 |x|. Truncation keeps NaN and infinity in the high part.
struct Tf32Parts {
  std::uint32_t high;
  std::uint32_t low;
};
__device__ __forceinline__ Tf32Parts split_tf32(float x) {
  const std::uint32_t high = __float_as_uint(x) & 0xffffe000u;
  const float rest = x - __uint_as_float(high);  // exact
  return {high, (__float_as_uint(rest) + 0x1000u) & 0xffffe000u};
}

}  // namespace detail

/// acc[m][n] += sum_c A[m][c] B[n][c].
template <typename Element>
__device__ __forceinline__ void multiply_add(Accumulator& acc, const Fragment<Element>& a,
                                             const Fragment<Element>& b) {
  if constexpr (!std::is_same_v<Element, float>) {
    mma_m16n8k16<Element>(acc.value, a.pair, b.pair[0], b.pair[2]);
    mma_m16n8k16<Element>(acc.value + 4, a.pair, b.pair[1], b.pair[3]);
  } else {
    // The hardware's k index t, t + 4 is given our columns 2t, 2t + 1, in A and in B alike.
    std::uint32_t a_high[2][4], a_low[2][4];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float2 pair = a.pair[2 * half + r % 2];
        const detail::Tf32Parts parts = detail::split_tf32(r < 2 ? pair.x : pair.y);
        a_high[half][r] = parts.high;
        a_low[half][r] = parts.low;
      }
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {  // rows 8 n .. of B
      float small[4] = {0, 0, 0, 0};
      float sums[4] = {0, 0, 0, 0};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const detail::Tf32Parts b0 = detail::split_tf32(b.pair[2 * half + n].x);
        const detail::Tf32Parts b1 = detail::split_tf32(b.pair[2 * half + n].y);
        mma_m16n8k8_tf32(small, a_low[half], b0.high, b1.high);
        mma_m16n8k8_tf32(small, a_high[half], b0.low, b1.low);
        mma_m16n8k8_tf32(sums, a_high[half], b0.high, b1.high);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) acc.value[4 * n + i] += sums[i] + small[i];
    }
  }
}

// ---- blocks stored in fragment order

/// Block of 256 elements, 16-byte aligned, in shared or global memory. float32: pairs 0 and 1 of
/// all lanes, then pairs 2 and 3, so that each 16-byte access of a warp is contiguous.
template <typename Element>
__device__ __forceinline__ void store_fragment(Element* block, const Fragment<Element>& fragment,
                                               int lane) {
  if constexpr (std::is_same_v<Element, float>) {
    reinterpret_cast<float4*>(block)[lane] =
        make_float4(fragment.pair[0].x, fragment.pair[0].y, fragment.pair[1].x, fragment.pair[1].y);
    reinterpret_cast<float4*>(block)[32 + lane] =
        make_float4(fragment.pair[2].x, fragment.pair[2].y, fragment.pair[3].x, fragment.pair[3].y);
  } else {
    reinterpret_cast<uint4*>(block)[lane] =
        make_uint4(fragment.pair[0], fragment.pair[1], fragment.pair[2], fragment.pair[3]);
  }
}

template <typename Element>
__device__ __forceinline__ Fragment<Element> load_stored_fragment(const Element* block, int lane) {
  if constexpr (std::is_same_v<Element, float>) {
    const float4 low = reinterpret_cast<const float4*>(block)[lane];
    const float4 high = reinterpret_cast<const float4*>(block)[32 + lane];
    return {{make_float2(low.x, low.y), make_float2(low.z, low.w), make_float2(high.x, high.y),
             make_float2(high.z, high.w)}};
  } else {
    const uint4 all = reinterpret_cast<const uint4*>(block)[lane];
    return {{all.x, all.y, all.z, all.w}};
  }
}

// ---- blocks of row-major tiles in shared memory

/// Elements from one row of a shared-memory tile to the next: columns is a multiple of 16. The 8
/// extra ones put the rows that a warp reads together in different banks.
__host__ __device__ constexpr int tile_stride(int columns) { return columns + 8; }

/// Fragment[r][c] = tile[row + r][column + c].
template <typename Element>
__device__ __forceinline__ Fragment<Element> load_fragment(const Element* tile, int stride, int row,
                                                           int column, int lane) {
  Fragment<Element> result;
  if constexpr (std::is_same_v<Element, float>) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      result.pair[q] =
          *reinterpret_cast<const float2*>(tile + (row + fragment_row(lane, 2 * q)) * stride +
                                           column + fragment_column(lane, 2 * q));
    }
  } else {
    load_matrices(result.pair, tile + (row + lane % 16) * stride + column + lane / 16 * 8);
  }
  return result;
}

/// Fragment[r][c] = tile[row + c][column + r]: the block's transpose.
template <typename Element>
__device__ __forceinline__ Fragment<Element> load_fragment_transposed(const Element* tile,
                                                                      int stride, int row,
                                                                      int column, int lane) {
  Fragment<Element> result;
  if constexpr (std::is_same_v<Element, float>) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const float* element =
          tile + (row + fragment_column(lane, 2 * q)) * stride + column + fragment_row(lane, 2 * q);
      result.pair[q] = make_float2(element[0], element[stride]);
    }
  } else {
    load_matrices_transposed(
        result.pair, tile + (row + lane % 8 + lane / 16 * 8) * stride + column + lane / 8 % 2 * 8);
  }
  return result;
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
