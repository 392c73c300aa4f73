// Lengths of keys and queries, from their tiles in shared memory and from K K^T.
//
// Tokens past the end of a sequence are another sequence's, or whatever lies in memory. Their rows
// and columns of K K^T and Q K^T are replaced by zeros: selected, never multiplied.
#pragma once

#include "cuda/gated_delta/params.cuh"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

using namespace hopper;

/// 128 threads: inverse lengths of the rows of a tile of K or Q, [2 panels][64][64] with Dk = 128,
/// to lengths[64], float32; 0 for rows from `valid` on. Thread t brings row t / 2.
template <typename Token>
__device__ __forceinline__ void store_inverse_lengths(uint32_t tile, uint32_t lengths, int valid,
                                                      int t) {
  const int row = t >> 1, panel = t & 1;
  float sum = 0.f;
#pragma unroll 2
  for (int i = 0; i < 8; i++) {  // the two panels' units in different order: no bank conflicts
    const uint4 x =
        load_shared<uint4>(tile + panel * 8192 + swizzle_128(row, (i ^ (4 * panel)) * 16));
    for (const uint32_t pair : {x.x, x.y, x.z, x.w}) {
      const float2 f = unpack<Token>(pair);
      sum += f.x * f.x + f.y * f.y;
    }
  }
  sum += __shfl_xor_sync(~0u, sum, 1);
  // A row of zeros has 0, not 1 / sqrt(eps) = 1000: it counts for nothing either way, but values
  // above 65 times 1000 are infinite in float16, and zero times infinity is NaN.
  if (panel == 0) {
    store_shared(lengths + 4 * row,
                 row < valid && sum > 0.f ? 1.f / sqrtf(sum + kNormEpsilon) : 0.f);
  }
}

/// Rows 16w + l/4 (+8) of K K^T or Q K^T, as wgmma leaves them: times the inverse lengths of row
/// and column.
__device__ __forceinline__ void scale_by_lengths(float (&x)[32], uint32_t row_lengths,
                                                 uint32_t column_lengths, int w, int l) {
  const uint32_t row = row_lengths + 4 * (16 * w + (l >> 2));
  const float r0 = load_shared<float>(row), r1 = load_shared<float>(row + 32);
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const float2 c = load_shared<float2>(column_lengths + 32 * j + 8 * (l & 3));
    x[4 * j] *= r0 * c.x;
    x[4 * j + 1] *= r0 * c.y;
    x[4 * j + 2] *= r1 * c.x;
    x[4 * j + 3] *= r1 * c.y;
  }
}
/// The same, and zeros outside the first `valid` rows and columns.
__device__ __forceinline__ void scale_and_mask(float (&x)[32], uint32_t row_lengths,
                                               uint32_t column_lengths, int valid, int w, int l) {
  const int row = 16 * w + (l >> 2);
  const float r0 = load_shared<float>(row_lengths + 4 * row),
              r1 = load_shared<float>(row_lengths + 4 * row + 32);
#pragma unroll
  for (int j = 0; j < 8; j++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int column = 8 * j + 2 * (l & 3) + e;
      const float c = load_shared<float>(column_lengths + 4 * column);
      const bool in0 = row < valid && column < valid, in1 = row + 8 < valid && column < valid;
      x[4 * j + e] = in0 ? x[4 * j + e] * (r0 * c) : 0.f;
      x[4 * j + 2 + e] = in1 ? x[4 * j + 2 + e] * (r1 * c) : 0.f;
    }
}

/// One warp: the largest squared key length of its 16 rows, or some |k_i k_j| that cannot exceed
/// it, as bits: from the diagonal block of K K^T.
__device__ __forceinline__ uint32_t largest_key_square(const float (&kk)[32], int w) {
  float square = 0.f;
#pragma unroll
  for (int e = 0; e < 8; e++) {
    const float lower = w & 1 ? kk[8 + e] : kk[e], upper = w & 1 ? kk[24 + e] : kk[16 + e];
    square = fmaxf(square, fabsf(w & 2 ? upper : lower));
  }
  return __reduce_max_sync(~0u, __float_as_uint(square));
}

/// The largest of four warps'.
__device__ __forceinline__ float largest_key_square(uint32_t squares) {
  const float4 x = load_shared<float4>(squares);
  return fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w));
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
