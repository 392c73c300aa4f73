// L = I + tril(beta K K^T Gamma, -1) and P = tril(scale Q K^T Gamma) of one chunk and value head,
// from the products K K^T and Q K^T as wgmma leaves them. A step is a warpgroup's, its warp w
// having block row w of 16 tokens.
#pragma once

#include "cuda/gated_delta/chunk_sm90/gate_factors.cuh"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

using namespace hopper;

/// L between K K^T and the inverse, in shared memory: a 16-bit tile below the diagonal blocks,
/// which then takes the inverted diagonal blocks, and the diagonal blocks in float32. Its diagonal,
/// which is 1, and what is above are not stored.
struct LowerTile {
  static constexpr uint32_t kRow = 144;  // bytes: ldmatrix without bank conflicts
  static constexpr uint32_t kBytes = 64 * kRow;
  static constexpr uint32_t kDiagonalBytes = 1280;  // per warp: 16x16, (i, j) at 80 j + 4 i
  /// Block (i, j) of 16x16, less block (0, 0).
  __host__ __device__ static constexpr uint32_t block(int i, int j) {
    return 16 * kRow * i + 32 * j;
  }
};

/// One warpgroup: x = rows columns^T, K K^T or Q K^T [64 x 64] of tiles [64 tokens x Dk], Dk = 128,
/// given by their descriptors; started and committed, the caller waits. Warp w has rows 16w to
/// 16w + 15.
template <typename Token>
__device__ __forceinline__ void multiply_tiles(float (&x)[32], uint64_t rows, uint64_t columns) {
  wgmma::hold(x);
  wgmma::registers_ready();
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int step = 2 * (i & 3) + 512 * (i >> 2);
    wgmma::multiply_ss_n64<Token>(x, rows + step, columns + step, i > 0);
  }
  wgmma::commit();
}

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

  friend __device__ __forceinline__ RowPair operator*(RowPair a, RowPair b) {
    return {a.x * b.x, a.y * b.y};
  }
};
__device__ __forceinline__ RowPair load_rows(uint32_t values, int w, int l) {
  const uint32_t row = values + 4 * (16 * w + (l >> 2));
  return {load_shared<float>(row), load_shared<float>(row + 32)};
}

/// Factors of a thread's two rows of L and P. `lengths`: inverse lengths of keys, and 256 bytes on those of queries.
struct RowFactors {
  RowPair beta;        // times the inverse length of the key
  RowPair lower;       // and the decay since the start of the block row,
  RowPair from_block;  // which is this
  RowPair scale;       // times the inverse length of the query
};
__device__ __forceinline__ RowFactors load_row_factors(uint32_t gates, uint32_t lengths,
                                                       float scale, int w, int l) {
  const RowPair beta = load_rows(gates + GateLayout::kBeta, w, l) * load_rows(lengths, w, l),
                from = load_rows(gates + GateLayout::kFromBlock, w, l);
  return {beta, from * beta, from, RowPair{scale, scale} * load_rows(lengths + 256, w, l)};
}

/// Block (w, jb) of L, jb < w, in float16. `rows`: beta kFromBlock, and the inverse lengths of keys.
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

/// Block (w, jb) of P, jb < w, to a lane's address in its slice. `rows`: scale kFromBlock, and the
/// inverse lengths of queries.
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
/// The diagonal block, zeros above the diagonal. `scale`: with the inverse lengths of queries.
template <typename Token>
__device__ __forceinline__ void store_p_diagonal(uint32_t at, const float (&qk)[32], int jb,
                                                 RowPair scale, const float (&m)[2][4], int l) {
  const int row = l >> 2;
  uint32_t p[4];
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const int n = 8 * jb + 4 * e, column = 8 * e + 2 * (l & 3);
    p[2 * e] = pack<Token>(column > row ? 0.f : qk[n] * scale.x * m[e][0],
                           column + 1 > row ? 0.f : qk[n + 1] * scale.x * m[e][1]);
    p[2 * e + 1] = pack<Token>(column > row + 8 ? 0.f : qk[n + 2] * scale.y * m[e][2],
                               column + 1 > row + 8 ? 0.f : qk[n + 3] * scale.y * m[e][3]);
  }
  store_matrix_x4(at, p[0], p[1], p[2], p[3]);
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
