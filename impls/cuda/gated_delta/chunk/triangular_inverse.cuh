// T = L^-1 for a unit lower triangular L of C x C in shared memory, in float32, by block
// substitution.
//
// Diagonal blocks of 16 are inverted by forward substitution, column by column. Below them
//
//     T_ij = -T_ii Y_ij,   Y_ij = sum over j <= k < i of L_ik T_kj        (blocks of 16)
//
// so that only entries of the true inverse are ever held: unlike sums of powers of the nilpotent
// part (Neumann series), whose terms grow like binomial coefficients for correlated keys and
// cancel. Block columns are independent: warp j does column j, holding T_kj transposed in
// registers, where the result of a product is the operand of the next. Error: ||L T - I|| is a
// small multiple of eps ||L|| ||T||.
#pragma once

#include "cuda/gated_delta/chunk/fragments.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Lower blocks of a C x C matrix stored one after the other in row order.
constexpr __host__ __device__ int triangle_block(int i, int j) { return i * (i + 1) / 2 + j; }
constexpr __host__ __device__ int triangle_blocks(int C) { return triangle_block(C / 16, 0); }

#ifdef __CUDACC__

/// Floats from one row of L to the next.
template <int C>
constexpr int kTriangleStride = tile_stride(C);

/// Replaces the diagonal block d of L (strict lower part read, the rest taken as a unit diagonal)
/// by its whole inverse. One warp.
template <int C>
__device__ __forceinline__ void invert_diagonal_block(float* L, int d, int lane) {
  float* const block = L + 16 * d * kTriangleStride<C> + 16 * d;
  const int column = lane % 16;  // both half warps compute it, the first stores it
  float x[16];                   // column `column` of the inverse
#pragma unroll
  for (int r = 0; r < 16; ++r) {
    float sum = r == column ? 1.0f : 0.0f;
#pragma unroll
    for (int k = 0; k < r; k += 4) {
      const float4 row = *reinterpret_cast<const float4*>(block + r * kTriangleStride<C> + k);
      sum = fmaf(-row.x, x[k], sum);
      if (k + 1 < r) sum = fmaf(-row.y, x[k + 1], sum);
      if (k + 2 < r) sum = fmaf(-row.z, x[k + 2], sum);
      if (k + 3 < r) sum = fmaf(-row.w, x[k + 3], sum);
    }
    x[r] = sum;
  }
  __syncwarp();
  if (lane < 16) {
#pragma unroll
    for (int r = 0; r < 16; ++r) block[r * kTriangleStride<C> + column] = x[r];
  }
}

/// Calls store(i, T_ij) for the blocks i >= j of block column j; an Accumulator in fragment order,
/// rows those of T. One warp; all diagonal blocks of L must have been inverted.
template <int C, typename Store>
__device__ __forceinline__ void substitute_block_column(const float* L, int j, int lane,
                                                        Store store) {
  constexpr int kBlocks = C / 16;
  constexpr int kStride = kTriangleStride<C>;
  store(j, widen(load_fragment(L, kStride, 16 * j, 16 * j, lane)));
  Fragment<float> transposed[kBlocks];  // T_{j+d, j} transposed
  transposed[0] = load_fragment_transposed(L, kStride, 16 * j, 16 * j, lane);
#pragma unroll
  for (int d = 1; d < kBlocks; ++d) {
    const int i = j + d;
    if (i < kBlocks) {
      Accumulator y = zero_accumulator();  // Y_ij transposed: rows those of T_kj's columns
#pragma unroll
      for (int e = 0; e < d; ++e) {
        multiply_add(y, transposed[e], load_fragment(L, kStride, 16 * i, 16 * (j + e), lane));
      }
      const Fragment<float> minus_y =
          round_to_fragment<float>({{-y.value[0], -y.value[1], -y.value[2], -y.value[3],
                                     -y.value[4], -y.value[5], -y.value[6], -y.value[7]}});
      const Fragment<float> diagonal = load_fragment(L, kStride, 16 * i, 16 * i, lane);  // T_ii
      Accumulator result = zero_accumulator();
      multiply_add(result, diagonal, minus_y);  // T_ij
      store(i, result);
      if (d + 1 < kBlocks) {
        Accumulator next = zero_accumulator();
        multiply_add(next, minus_y, diagonal);  // T_ij transposed
        transposed[d] = round_to_fragment<float>(next);
      }
    }
  }
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
