// What fused_sm90 makes of one chunk and value head before its chain: scanned gates, the unit lower
// triangular inverse X = (I + L)^-1 with L = tril(beta K K^T Gamma, -1), of it T, and
// P = tril(scale Q K^T Gamma). The prepare kernel and the auxiliary warpgroups of the one-launch
// kernel are made of these steps; a step is a warpgroup's, its warp w having block row or column w
// of 16.
//
// The inverse runs 8 -> 16 -> 64: 8x8 diagonal blocks by substitution in float32, merged by float16
// products with float32 sums. Float16 serves while |L| stays near what unit keys give; a chunk with
// larger entries (keys longer than one and beta not small) takes operands split into two bfloat16
// parts, which have float32's range and 16 bits. The choice is made per chunk on the device and
// depends on that chunk alone.
//
// Tokens past the end of a sequence are another sequence's, or whatever lies in memory. Their rows
// and columns of K K^T and Q K^T are replaced by zeros (selected, never multiplied), their beta is
// 0 and their decay 1.
#pragma once

#include "cuda/gated_delta/fused_sm90_common.cuh"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/shared_memory.cuh"

namespace gdn::cuda::fused_sm90 {

using namespace hopper;

inline constexpr float kLog2E = 1.4426950408889634f;
/// Log decay (base 2) at or below which the decay is exactly 0 in float32 with subnormals flushed.
/// Clamping -inf to it keeps every difference of cumulative sums finite.
inline constexpr float kFullReset = -130.f;
/// Largest beta |k|^2 for which merges are in float16. Unit keys rounded to 16 bits with beta <= 2
/// stay below it, and (1 + 0.0625)^64 bounds the growth of the inverse.
inline constexpr float kFloat16Limit = 2.0625f;

/// Gate factors of one chunk and head, 64 floats each, byte offsets. No exponent is ever positive.
struct GateLayout {
  static constexpr uint32_t kCumulative = 0;  // c_i: cumulative log2 decay
  static constexpr uint32_t kGamma = 256;     // 2^c_i
  static constexpr uint32_t kToEnd = 512;     // 2^(c_63 - c_i)
  static constexpr uint32_t kBeta = 768;
  static constexpr uint32_t kFromBlock = 1024;  // 2^(c_i - c at the end of the 16-block before i's)
  static constexpr uint32_t kToBlock = 1280;    // [b-1], b = 1..3: 2^(c_{16b-1} - c_j), j < 16b
  static constexpr uint32_t kLargestBeta = 2048;  // one float
};

/// log2 of a decay, at least kFullReset, from the gate array's value x at a value head.
__device__ __forceinline__ float log2_decay(const GateParams& gates, float x, int head) {
  return fmaxf(decode_log_decay(gates, x, head) * kLog2E, kFullReset);
}

/// One warp: GateLayout of one head; lane l brings tokens 2l and 2l+1 of the chunk.
__device__ __forceinline__ void scan_gates(uint32_t gates, float x0, float x1, float beta0,
                                           float beta1, int lane) {
  float sum = x0 + x1;
#pragma unroll
  for (int o = 1; o < 32; o <<= 1) {
    const float y = __shfl_up_sync(~0u, sum, o);
    if (lane >= o) sum += y;
  }
  const float c0 = sum - x1, c1 = sum, end = __shfl_sync(~0u, sum, 31);
  const uint32_t p = gates + 8 * lane;
  store_shared(p + GateLayout::kCumulative, make_float2(c0, c1));
  store_shared(p + GateLayout::kGamma, make_float2(exp2_flush(c0), exp2_flush(c1)));
  store_shared(p + GateLayout::kToEnd,
               make_float2(exp2_flush(fminf(end - c0, 0.f)), exp2_flush(fminf(end - c1, 0.f))));
  store_shared(p + GateLayout::kBeta, make_float2(beta0, beta1));
  const uint32_t largest = __reduce_max_sync(~0u, __float_as_uint(fmaxf(fmaxf(beta0, beta1), 0.f)));
  if (lane == 0) store_shared(gates + GateLayout::kLargestBeta, largest);
  float before = __shfl_sync(~0u, sum, (lane & 24) ? (lane & 24) - 1 : 0);
  if (lane < 8) before = 0.f;
  store_shared(p + GateLayout::kFromBlock, make_float2(exp2_flush(fminf(c0 - before, 0.f)),
                                                       exp2_flush(fminf(c1 - before, 0.f))));
#pragma unroll
  for (int b = 1; b < 4; b++) {
    const float at = __shfl_sync(~0u, sum, 8 * b - 1);
    store_shared(p + GateLayout::kToBlock + 256 * (b - 1),
                 make_float2(exp2_flush(fminf(at - c0, 0.f)), exp2_flush(fminf(at - c1, 0.f))));
  }
}

// ---- lengths of keys and queries
// ------------------------------------------------------------------

/// 128 threads: inverse lengths of a tile's rows [2 panels][64][64] to lengths[64], float32; 0 for
/// rows from `valid` on. Thread t brings row t / 2.
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
  if (panel == 0)
    store_shared(lengths + 4 * row, row < valid ? 1.f / sqrtf(sum + kNormEpsilon) : 0.f);
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

/// beta |k|^2 at most: bounds |L| and, less 1, the norm of I - beta k k^T.
__device__ __forceinline__ float largest_step(uint32_t gates, float key_square) {
  return load_shared<float>(gates + GateLayout::kLargestBeta) * key_square;
}

/// 128 threads: the record's factors (fused_sm90_common.cuh); lengths [64] of K, then [64] of Q,
/// all one unless Normalize. Thread t brings row t / 2.
template <bool Normalize>
__device__ __forceinline__ void store_factors(uint32_t factors, uint32_t gates, uint32_t lengths,
                                              float scale, int t) {
  asm volatile("" : "+r"(t));         // addresses made anew: kept from before, they spill
  const uint32_t row = 2 * (t & ~1);  // bytes
  const float k_inverse = Normalize ? load_shared<float>(lengths + row) : 1.f,
              beta = load_shared<float>(gates + GateLayout::kBeta + row);
  if ((t & 1) == 0) {
    const float gamma = load_shared<float>(gates + GateLayout::kGamma + row),
                q_inverse = Normalize ? load_shared<float>(lengths + 256 + row) : 1.f;
    store_shared(factors + kFactorKey + row, beta * gamma * k_inverse);
    store_shared(factors + kFactorQuery + row, gamma * scale * q_inverse);
    if (t >= 112)  // the whole last sector of 32 bytes
      store_shared(factors + kFactorGammaEnd - 224 + row,
                   load_shared<float>(gates + GateLayout::kGamma + 252));
  } else {
    store_shared(factors + kFactorUpdate + row,
                 load_shared<float>(gates + GateLayout::kToEnd + row) * k_inverse);
    store_shared(factors + kFactorBeta + row, beta);
  }
}

// ---- L and P from K K^T and Q K^T
// -----------------------------------------------------------------

/// L between K K^T and the inverse, in shared memory: a 16-bit tile below the diagonal blocks,
/// which then takes the inverted diagonal blocks, and the diagonal blocks in float32.
struct LowerTile {
  static constexpr uint32_t kRow = 144;  // bytes: ldmatrix without bank conflicts
  static constexpr uint32_t kBytes = 64 * kRow;
  static constexpr uint32_t kDiagonalBytes = 1280;  // per warp: 16x16, (i, j) at 80 j + 4 i
  /// Block (i, j) of 16x16, less block (0, 0).
  __host__ __device__ static constexpr uint32_t block(int i, int j) {
    return 16 * kRow * i + 32 * j;
  }
};

template <int W, typename Below, typename OnDiagonal>
__device__ __forceinline__ void for_blocks_of_row(uint32_t gates, int l, Below below,
                                                  OnDiagonal on_diagonal) {
  const uint32_t columns = gates + 8 * (l & 3), row = gates + 4 * (16 * W + (l >> 2));
  const uint32_t to_block = columns + GateLayout::kFromBlock + 256 * W;  // kToBlock, W > 0
  const float c0 = load_shared<float>(row), c1 = load_shared<float>(row + 32);
#pragma unroll
  for (int jb = 0; jb < W; jb++) {
    float2 f[2];
#pragma unroll
    for (int e = 0; e < 2; e++) f[e] = load_shared<float2>(to_block + 32 * (2 * jb + e));
    below(jb, f);
  }
  float m[2][4];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const float2 c = load_shared<float2>(columns + 64 * W + 32 * e);
    m[e][0] = exp2_flush(c0 - c.x);
    m[e][1] = exp2_flush(c0 - c.y);
    m[e][2] = exp2_flush(c1 - c.x);
    m[e][3] = exp2_flush(c1 - c.y);
  }
  on_diagonal(W, m);
}
/// For the 16x16 blocks of block row w: below(jb, f) with the decays of columns as far as the
/// start of the block row, f[e] for accumulators 8 jb + 4 e and +1 (the same for +2, +3), to be
/// multiplied by kFromBlock of the row; on_diagonal(w, m) with the decays themselves, accumulator
/// 8 w + 4 e + i in m[e][i]. Straight code for each block row: jumps miss the instruction cache.
template <typename Below, typename OnDiagonal>
__device__ __forceinline__ void for_lower_blocks(uint32_t gates, int w, int l, Below below,
                                                 OnDiagonal on_diagonal) {
  if (w == 0) {
    for_blocks_of_row<0>(gates, l, below, on_diagonal);
  } else if (w == 1) {
    for_blocks_of_row<1>(gates, l, below, on_diagonal);
  } else if (w == 2) {
    for_blocks_of_row<2>(gates, l, below, on_diagonal);
  } else {
    for_blocks_of_row<3>(gates, l, below, on_diagonal);
  }
}

/// Row factors of a thread's two rows, 16w + l/4 and +8.
struct RowPair {
  float x, y;
};
__device__ __forceinline__ RowPair load_rows(uint32_t values, int w, int l) {
  const uint32_t row = values + 4 * (16 * w + (l >> 2));
  return {load_shared<float>(row), load_shared<float>(row + 32)};
}

/// Block (w, jb) of L, jb < w, in float16. `rows`: beta kFromBlock.
__device__ __forceinline__ void store_lower(uint32_t tile, const float (&kk)[32], int jb,
                                            RowPair rows, const float2 (&f)[2], int w, int l) {
  const uint32_t at = tile + (16 * w + (l >> 2)) * LowerTile::kRow + 4 * (l & 3) + 32 * jb;
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int n = 8 * jb + 4 * e;
    store_shared(at + 16 * e, pack<__half>(kk[n] * rows.x * f[e].x, kk[n + 1] * rows.x * f[e].y));
    store_shared(at + 8 * LowerTile::kRow + 16 * e,
                 pack<__half>(kk[n + 2] * rows.y * f[e].x, kk[n + 3] * rows.y * f[e].y));
  }
}
/// The same in two bfloat16 parts.
__device__ __forceinline__ void store_lower_parts(uint32_t tile, uint32_t low_tile,
                                                  const float (&kk)[32], int jb, RowPair rows,
                                                  const float2 (&f)[2], int w, int l) {
  const uint32_t at = (16 * w + (l >> 2)) * LowerTile::kRow + 4 * (l & 3) + 32 * jb;
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int n = 8 * jb + 4 * e;
    uint32_t high, low;
    split_bfloat16(kk[n] * rows.x * f[e].x, kk[n + 1] * rows.x * f[e].y, high, low);
    store_shared(tile + at + 16 * e, high);
    store_shared(low_tile + at + 16 * e, low);
    split_bfloat16(kk[n + 2] * rows.y * f[e].x, kk[n + 3] * rows.y * f[e].y, high, low);
    store_shared(tile + at + 8 * LowerTile::kRow + 16 * e, high);
    store_shared(low_tile + at + 8 * LowerTile::kRow + 16 * e, low);
  }
}
/// The diagonal block; entries on and above the diagonal are never used and may be inf.
__device__ __forceinline__ void store_lower_diagonal(uint32_t diagonal, const float (&kk)[32],
                                                     int jb, RowPair beta, const float (&m)[2][4],
                                                     int l) {
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int n = 8 * jb + 4 * e;
    const uint32_t at = diagonal + 80 * (8 * e + 2 * (l & 3)) + 4 * (l >> 2);
    store_shared(at, kk[n] * beta.x * m[e][0]);
    store_shared(at + 80, kk[n + 1] * beta.x * m[e][1]);
    store_shared(at + 32, kk[n + 2] * beta.y * m[e][2]);
    store_shared(at + 112, kk[n + 3] * beta.y * m[e][3]);
  }
}

/// This lane's address in block row w of a triangle of 16-column slices, slice 0, for
/// store_matrix_x4; `transposed`: for store_matrix_x4_trans.
__device__ __forceinline__ uint32_t slice_lane(uint32_t triangle, int w, int l, bool transposed) {
  const int matrix = l >> 3, rr = l & 7;
  const int row = transposed ? matrix >> 1 : matrix & 1,
            unit = transposed ? matrix & 1 : matrix >> 1;
  return triangle + (16 * w + row * 8 + rr) * 32 + ((unit ^ (rr >> 2)) * 16);
}

/// Block (w, jb) of P, jb < w, to a lane's address in its slice. `rows`: scale kFromBlock.
template <typename Token>
__device__ __forceinline__ void store_p(uint32_t at, const float (&qk)[32], int jb, RowPair rows,
                                        const float2 (&f)[2]) {
  uint32_t p[4];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int n = 8 * jb + 4 * e;
    p[2 * e] = pack<Token>(qk[n] * rows.x * f[e].x, qk[n + 1] * rows.x * f[e].y);
    p[2 * e + 1] = pack<Token>(qk[n + 2] * rows.y * f[e].x, qk[n + 3] * rows.y * f[e].y);
  }
  store_matrix_x4(at, p[0], p[1], p[2], p[3]);
}
/// The diagonal block, zeros above the diagonal.
template <typename Token>
__device__ __forceinline__ void store_p_diagonal(uint32_t at, const float (&qk)[32], int jb,
                                                 float scale, const float (&m)[2][4], int l) {
  const int row = l >> 2;
  uint32_t p[4];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int n = 8 * jb + 4 * e, column = 8 * e + 2 * (l & 3);
    p[2 * e] = pack<Token>(column > row ? 0.f : qk[n] * scale * m[e][0],
                           column + 1 > row ? 0.f : qk[n + 1] * scale * m[e][1]);
    p[2 * e + 1] = pack<Token>(column > row + 8 ? 0.f : qk[n + 2] * scale * m[e][2],
                               column + 1 > row + 8 ? 0.f : qk[n + 3] * scale * m[e][3]);
  }
  store_matrix_x4(at, p[0], p[1], p[2], p[3]);
}

// ---- X = (I + L)^-1
// -------------------------------------------------------------------------------

/// One warp: the inverse of a 16x16 diagonal block to its place X in the tile, float16. Two 8x8
/// blocks at once in float32 (8 lanes each), then the 8x8 below by a product.
__device__ __forceinline__ void invert_diagonal(uint32_t X, uint32_t diagonal, int l) {
  float x[8];
  int column = l & 7;
  asm volatile("" : "+r"(column));  // or the start values are hoisted and spilled
  const uint32_t half = (l >> 3) & 1, D = diagonal + half * 672;
#pragma unroll
  for (int i = 0; i < 8; i++) x[i] = column == i ? 1.f : 0.f;
  const uint32_t below = diagonal + 160 * (l & 3) + 32 + 4 * (l >> 2);
  const float e0 = load_shared<float>(below), e1 = load_shared<float>(below + 80);
#pragma unroll
  for (int j = 0; j < 7; j++)
#pragma unroll
    for (int i4 = 0; i4 < 2; i4++)
      if (i4 >= (j + 1) / 4) {
        const float4 e = load_shared<float4>(D + j * 80 + 16 * i4);
        if (4 * i4 + 0 > j) x[4 * i4 + 0] -= e.x * x[j];
        if (4 * i4 + 1 > j) x[4 * i4 + 1] -= e.y * x[j];
        if (4 * i4 + 2 > j) x[4 * i4 + 2] -= e.z * x[j];
        if (4 * i4 + 3 > j) x[4 * i4 + 3] -= e.w * x[j];
      }
  if (l < 16) {
#pragma unroll
    for (int i = 0; i < 8; i++)
      store_shared(X + (8 * half + i) * LowerTile::kRow + (8 * half + column) * 2,
                   __float2half_rn(x[i]));
  } else if (l < 24) {
    store_shared(X + column * LowerTile::kRow + 16, make_uint4(0, 0, 0, 0));
  }
  __syncwarp();
  const uint32_t upper_left = load_matrix_trans(X + column * LowerTile::kRow),
                 lower_right = load_matrix(X + (8 + column) * LowerTile::kRow + 16);
  float z[4] = {}, v[4] = {};
  mma_m8n8k8_f16(z, upper_left, pack<__half>(e0, e1));
  mma_m8n8k8_f16(v, pack<__half>(-z[0], -z[1]), lower_right);
  store_matrix_trans(X + (8 + column) * LowerTile::kRow, pack<__half>(v[0], v[1]));
}
/// The same in two bfloat16 parts, by substitution alone, lane = column.
__device__ __forceinline__ void invert_diagonal_parts(uint32_t X, uint32_t low_X, uint32_t diagonal,
                                                      int l) {
  float x[16];
  int column = l & 15;
  asm volatile("" : "+r"(column));
#pragma unroll
  for (int i = 0; i < 16; i++) x[i] = column == i ? 1.f : 0.f;
#pragma unroll
  for (int j = 0; j < 15; j++)
#pragma unroll
    for (int i = j + 1; i < 16; i++) {
      x[i] -= load_shared<float>(diagonal + 80 * j + 4 * i) * x[j];
      if (i % 4 == 3) asm volatile("" ::: "memory");  // or the loads are hoisted and spill
    }
  if (l < 16) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const __nv_bfloat16 high = __float2bfloat16_rn(x[i]);
      store_shared(X + i * LowerTile::kRow + column * 2, high);
      store_shared(low_X + i * LowerTile::kRow + column * 2,
                   __float2bfloat16_rn(x[i] - __bfloat162float(high)));
    }
  }
}

/// A lane's address of block (0, 0) for load_matrix_x4 of a tile's blocks.
__device__ __forceinline__ uint32_t tile_lane(uint32_t tile, int l) {
  const int matrix = l >> 3, rr = l & 7;
  return tile + ((matrix >> 1) * 8 + rr) * LowerTile::kRow + (matrix & 1) * 16;
}

/// Block (w + m, w) of T from its transpose. `at`: slice_lane of slice w.
template <typename Token>
__device__ __forceinline__ void store_t(uint32_t at, int m, const float (&x)[2][4]) {
  store_matrix_x4_trans(at + 512 * m, pack<Token>(x[0][0], x[0][1]), pack<Token>(x[0][2], x[0][3]),
                        pack<Token>(x[1][0], x[1][1]), pack<Token>(x[1][2], x[1][3]));
}
/// What T keeps of a lane's pair of 16-bit elements of an 8x8 matrix on the diagonal of X.
__device__ __forceinline__ uint32_t diagonal_kept(bool chunk_forgets, int l) {
  const int column = 2 * (l & 3), row = l >> 2;
  return !chunk_forgets      ? 0xffffffffu
         : row == column     ? 0xffff0000u
         : row == column + 1 ? 0xffffu
                             : 0xffffffffu;
}

/// One warp: block column w of X, transposed, so that accumulators are the next operands:
/// Y_m = (X_{w+m,w})^T = -(X_{w+m,w+m} sum_k L_{w+m,w+k} Y_k^T)^T; stored as T's.
/// `blocks`: tile_lane moved to block (w, w); kept: diagonal_kept.
template <typename Token>
__device__ __forceinline__ void merge_column(uint32_t blocks, uint32_t t_at, uint32_t kept, int w) {
  uint32_t y[4][4];
  load_matrix_x4_trans(blocks, y[0][0], y[0][1], y[0][2], y[0][3]);
  {
    float v[2][4];
#pragma unroll
    for (int n = 0; n < 4; n++) {
      const float2 f = unpack<__half>(n % 3 == 0 ? y[0][n] & kept : y[0][n]);
      v[n >> 1][2 * (n & 1)] = f.x;
      v[n >> 1][2 * (n & 1) + 1] = f.y;
    }
    store_t<Token>(t_at, 0, v);
  }
#pragma unroll
  for (int m = 1; m < 4; m++)
    if (w + m < 4) {
      float z[2][4] = {}, v[2][4] = {};
      uint32_t b[4][4], za[4];
#pragma unroll
      for (int k = 0; k <= m; k++)
        load_matrix_x4(blocks + LowerTile::block(m, k), b[k][0], b[k][1], b[k][2], b[k][3]);
#pragma unroll
      for (int k = 0; k < m; k++) {
        mma_m16n8k16<__half>(z[0], y[k], b[k][0], b[k][1]);
        mma_m16n8k16<__half>(z[1], y[k], b[k][2], b[k][3]);
      }
#pragma unroll
      for (int n = 0; n < 4; n++)
        za[n] = pack<__half>(-z[n >> 1][2 * (n & 1)], -z[n >> 1][2 * (n & 1) + 1]);
      mma_m16n8k16<__half>(v[0], za, b[m][0], b[m][1]);
      mma_m16n8k16<__half>(v[1], za, b[m][2], b[m][3]);
#pragma unroll
      for (int n = 0; n < 4; n++)
        y[m][n] = pack<__half>(v[n >> 1][2 * (n & 1)], v[n >> 1][2 * (n & 1) + 1]);
      store_t<Token>(t_at, m, v);
    }
}

/// The same with every operand in two bfloat16 parts.
template <typename Token>
__device__ __forceinline__ void merge_column_parts(uint32_t blocks, uint32_t low_blocks,
                                                   uint32_t t_at, uint32_t kept, int w) {
  const auto product = [&](float(&d)[2][4], const uint32_t(&high)[4], const uint32_t(&low)[4],
                           uint32_t offset) {
    uint32_t bh[4], bl[4];
    load_matrix_x4(blocks + offset, bh[0], bh[1], bh[2], bh[3]);
    load_matrix_x4(low_blocks + offset, bl[0], bl[1], bl[2], bl[3]);
#pragma unroll
    for (int n = 0; n < 2; n++) {
      mma_m16n8k16<__nv_bfloat16>(d[n], low, bh[2 * n], bh[2 * n + 1]);
      mma_m16n8k16<__nv_bfloat16>(d[n], high, bl[2 * n], bl[2 * n + 1]);
      mma_m16n8k16<__nv_bfloat16>(d[n], high, bh[2 * n], bh[2 * n + 1]);
    }
  };
  uint32_t yh[3][4], yl[3][4];
  load_matrix_x4_trans(blocks, yh[0][0], yh[0][1], yh[0][2], yh[0][3]);
  load_matrix_x4_trans(low_blocks, yl[0][0], yl[0][1], yl[0][2], yl[0][3]);
  {
    float v[2][4];
#pragma unroll
    for (int n = 0; n < 4; n++) {
      const float2 f = unpack<__nv_bfloat16>(n % 3 == 0 ? yh[0][n] & kept : yh[0][n]),
                   g = unpack<__nv_bfloat16>(yl[0][n]);
      v[n >> 1][2 * (n & 1)] = f.x + g.x;
      v[n >> 1][2 * (n & 1) + 1] = f.y + g.y;
    }
    store_t<Token>(t_at, 0, v);
  }
#pragma unroll
  for (int m = 1; m < 4; m++)
    if (w + m < 4) {
      float z[2][4] = {}, v[2][4] = {};
#pragma unroll
      for (int k = 0; k < m; k++) product(z, yh[k], yl[k], LowerTile::block(m, k));
      uint32_t zh[4], zl[4];
#pragma unroll
      for (int n = 0; n < 4; n++)
        split_bfloat16(-z[n >> 1][2 * (n & 1)], -z[n >> 1][2 * (n & 1) + 1], zh[n], zl[n]);
      product(v, zh, zl, LowerTile::block(m, m));
      if (m < 3)
#pragma unroll
        for (int n = 0; n < 4; n++)
          split_bfloat16(v[n >> 1][2 * (n & 1)], v[n >> 1][2 * (n & 1) + 1], yh[m < 3 ? m : 0][n],
                         yl[m < 3 ? m : 0][n]);
      store_t<Token>(t_at, m, v);
    }
}

}  // namespace gdn::cuda::fused_sm90
