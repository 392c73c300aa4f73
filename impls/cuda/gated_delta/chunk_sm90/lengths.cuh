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

/// 1 / |x| of a row whose squares add up to `squares`. A row of zeros has 0, not 1 / sqrt(eps) = 1000:
/// it counts for nothing either way, but values above 65 times 1000 are infinite in float16, and zero
/// times infinity is NaN.
__device__ __forceinline__ float inverse_of_length(float squares) {
  return squares > 0.f ? 1.f / sqrtf(squares + kNormEpsilon) : 0.f;
}

/// One warp, of whose lanes those with l % 4 = l / 8 have the squares of rows 16w + l/4 and +8: the rows'
/// inverse lengths to lengths[64], float32; 0 for rows from `valid` on.
__device__ __forceinline__ void store_inverses(uint32_t lengths, float upper, float lower,
                                               int valid, int w, int l) {
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int row = 16 * w + 8 * e + (l >> 2);
    const float inverse = row < valid ? inverse_of_length(e == 0 ? upper : lower) : 0.f;
    if ((l & 3) == l >> 3) store_shared(lengths + 4 * row, inverse);
  }
}

/// One warp: those of its 16 rows of a tile of K or Q, [2 panels][64][64] with Dk = 128, from the
/// diagonals of the rows' products with themselves.
template <typename Token>
__device__ __forceinline__ void store_inverse_lengths(uint32_t tile, uint32_t lengths, int valid,
                                                      int w, int l) {
  const uint32_t row_at = tile + swizzle_128(16 * w + (l & 15), (l >> 4) * 16);
  float upper[4] = {}, lower[4] = {};  // rows and columns 0..7, and 8..15; the rest is not used
#pragma unroll
  for (int i = 0; i < 8; i++) {
    uint32_t x[4];  // a tile is aligned to 1024 bytes: what the swizzle changes are address bits
    load_matrix_x4((row_at ^ (32 * (i & 3))) + 8192 * (i >> 2), x[0], x[1], x[2], x[3]);
    mma_m16n8k16<Token>(upper, x, x[0], x[2]);
    mma_m16n8k16<Token>(lower, x, x[1], x[3]);
  }
  const bool odd = (l >> 2) & 1;
  store_inverses(lengths, odd ? upper[1] : upper[0], odd ? lower[3] : lower[2], valid, w, l);
}

/// One warp: those of its 16 keys, from the diagonal of K K^T as wgmma leaves it.
__device__ __forceinline__ void store_inverse_key_lengths(const float (&kk)[32], uint32_t lengths,
                                                          int valid, int w, int l) {
  const bool odd = (l >> 2) & 1;
  const auto own = [&](int i) {  // element i of the warp's diagonal block
    const float even_w = w & 2 ? kk[16 + i] : kk[i], odd_w = w & 2 ? kk[24 + i] : kk[8 + i];
    return w & 1 ? odd_w : even_w;
  };
  store_inverses(lengths, odd ? own(1) : own(0), odd ? own(7) : own(6), valid, w, l);
}

/// Rows 16w + l/4 (+8) of K K^T or Q K^T, as wgmma leaves them, times the inverse lengths of the
/// columns; those of the rows are factors of rows (triangles.cuh).
__device__ __forceinline__ void scale_columns(float (&x)[32], uint32_t lengths, int l) {
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const float2 c = load_shared<float2>(lengths + 32 * j + 8 * (l & 3));
    x[4 * j] *= c.x;
    x[4 * j + 1] *= c.y;
    x[4 * j + 2] *= c.x;
    x[4 * j + 3] *= c.y;
  }
}
/// The same, and zeros outside the first `valid` rows and columns.
__device__ __forceinline__ void scale_and_mask_columns(float (&x)[32], uint32_t lengths, int valid,
                                                       int w, int l) {
  const int row = 16 * w + (l >> 2);
#pragma unroll
  for (int j = 0; j < 8; j++)
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int column = 8 * j + 2 * (l & 3) + e;
      const float c = load_shared<float>(lengths + 4 * column);
      const bool in0 = row < valid && column < valid, in1 = row + 8 < valid && column < valid;
      x[4 * j + e] = in0 ? x[4 * j + e] * c : 0.f;
      x[4 * j + 2 + e] = in1 ? x[4 * j + 2 + e] * c : 0.f;
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
