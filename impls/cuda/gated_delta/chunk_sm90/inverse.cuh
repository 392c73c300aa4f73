// T of one chunk and value head: the inverse X = L^-1 of the unit lower triangular L, of a chunk
// that forgets X - I. Warp w has block column w of 16 tokens.
//
// The inverse runs 8 -> 16 -> 64: 8x8 diagonal blocks by substitution in float32, merged by float16
// products with float32 sums. Float16 serves while entries of L stay near what unit keys give; a
// chunk with larger entries (keys longer than one and beta not small) takes operands split into two
// bfloat16 parts, which have float32's range and 16 bits. The choice is made per chunk on the
// device and depends on that chunk alone.
#pragma once

#include "cuda/gated_delta/chunk_sm90/triangles.cuh"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/matrix.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

using namespace hopper;

/// Largest beta |k|^2 for which merges are in float16. Unit keys rounded to 16 bits with beta
/// <= 2 stay below it, and (1 + 0.0625)^64 bounds the growth of the inverse.
inline constexpr float kFloat16Limit = 2.0625f;

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

/// Bytes from a block of T to the one below it: in a slice of a packed triangle, and in a whole tile of 128-byte
/// rows.
inline constexpr uint32_t kSliceBlockBytes = 512, kTileBlockBytes = 2048;

/// Block (w + m, w) of T from its transpose. `at`: the lane's address in block (w, w), as slice_lane gives it of
/// slice w.
template <typename Token, uint32_t BlockBytes>
__device__ __forceinline__ void store_t(uint32_t at, int m, const float (&x)[2][4]) {
  store_matrix_x4_trans(at + BlockBytes * m, pack<Token>(x[0][0], x[0][1]),
                        pack<Token>(x[0][2], x[0][3]), pack<Token>(x[1][0], x[1][1]),
                        pack<Token>(x[1][2], x[1][3]));
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
template <typename Token, uint32_t BlockBytes = kSliceBlockBytes>
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
    store_t<Token, BlockBytes>(t_at, 0, v);
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
      store_t<Token, BlockBytes>(t_at, m, v);
    }
}

/// The same with every operand in two bfloat16 parts.
template <typename Token, uint32_t BlockBytes = kSliceBlockBytes>
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
    store_t<Token, BlockBytes>(t_at, 0, v);
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
      store_t<Token, BlockBytes>(t_at, m, v);
    }
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
