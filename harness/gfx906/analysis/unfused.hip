// hip/unfused: the chunkwise form as a chain of separate matrix products and elementwise kernels,
// one launch per operation and every intermediate a tensor in memory: what a graph of library calls
// does when nothing is fused. Here to be compared with: the arithmetic is the same as the fused
// kernels', all that differs is where intermediates live and how often the card is asked.
//
// Float32, chunk 64, one sequence. The product kernel is a fair one (64 x 64 tiles, 4 x 4 per
// work-item, both operands through LDS), not a straw man.
//
// Bound by: dispatches and the memory traffic of the intermediates; in the loop over chunks each
// product is Hv * (1 to 4) workgroups, which leaves most of the card idle.
#include <hip/hip_runtime.h>

#include "harness/gfx906/analysis/unfused_params.h"

namespace gdn::hip {
namespace {

__device__ __forceinline__ float* matrix_of(const MatrixView& view, int head, int chunk) {
  return view.data + (head >> view.head_shift) * view.head_stride + chunk * view.chunk_stride;
}
__device__ __forceinline__ std::int64_t element_at(const MatrixView& view, int row, int column) {
  return static_cast<std::int64_t>(row) * view.row_stride +
         static_cast<std::int64_t>(column) * view.column_stride;
}

}  // namespace

extern "C" {

__global__ __launch_bounds__(256) void unfused_elementwise(ElementwiseParams p) {
  const int index = static_cast<int>(blockIdx.x * 256 + threadIdx.x);
  if (index >= p.elements) return;
  const int head = static_cast<int>(blockIdx.y), chunk = static_cast<int>(blockIdx.z);
  const int row = index >> p.log2_columns, column = index & ((1 << p.log2_columns) - 1);
  const int token = chunk * kUnfusedChunk + row;
  const float a =
      token < p.rows_left ? matrix_of(p.a, head, chunk)[element_at(p.a, row, column)] : 0.0f;
  const auto second = [&] { return matrix_of(p.b, head, chunk)[element_at(p.b, row, column)]; };
  float out = 0.0f;
  switch (p.op) {
    case ElementOp::copy:
      out = p.factor * a;
      break;
    case ElementOp::add:
      out = a + second();
      break;
    case ElementOp::subtract:
      out = a - second();
      break;
    case ElementOp::multiply:
      out = a * second();
      break;
    case ElementOp::exponential:
      out = expf(a);
      break;
    case ElementOp::mask_lower:
      out = column <= row ? p.factor * a : 0.0f;
      break;
    case ElementOp::mask_strict_lower:
      out = column < row ? p.factor * a : 0.0f;
      break;
    case ElementOp::identity_minus:
      out = (column == row ? 1.0f : 0.0f) - a;
      break;
    case ElementOp::add_identity:
      out = a + (column == row ? 1.0f : 0.0f);
      break;
  }
  if (token < p.store_rows_left) {
    matrix_of(p.out, head, chunk)[element_at(p.out, row, column)] = out;
  }
}

/// 64 x 64 of out per workgroup: 4 x 4 per work-item, 16 columns of a and rows of b at a time.
__global__ __launch_bounds__(256) void unfused_product(ProductParams p) {
  constexpr int kTile = 64, kDepth = 16, kSteps = kTile * kDepth / 256;
  alignas(16) __shared__ float a_tile[kDepth][kTile + 4];
  alignas(16) __shared__ float b_tile[kDepth][kTile + 4];
  const int head = static_cast<int>(blockIdx.y), chunk = static_cast<int>(blockIdx.z);
  const int thread = static_cast<int>(threadIdx.x);
  const int tile = static_cast<int>(blockIdx.x);
  const int first_row = (tile >> p.log2_column_tiles) * kTile;
  const int first_column = (tile & ((1 << p.log2_column_tiles) - 1)) * kTile;
  const float* const a = matrix_of(p.a, head, chunk) + element_at(p.a, first_row, 0);
  const float* const b = matrix_of(p.b, head, chunk) + element_at(p.b, 0, first_column);
  const int row = thread / 16 * 4, column = thread % 16 * 4;
  float sum[4][4] = {};
  for (int k = 0; k < p.depth; k += kDepth) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {  // lanes along the contiguous direction
      const int index = thread + 256 * step;
      const int a_row = p.a.column_stride == 1 ? index / kDepth : index % kTile;
      const int a_k = p.a.column_stride == 1 ? index % kDepth : index / kTile;
      a_tile[a_k][a_row] = a[element_at(p.a, a_row, k + a_k)];
      const int b_column = p.b.column_stride == 1 ? index % kTile : index / kDepth;
      const int b_k = p.b.column_stride == 1 ? index / kTile : index % kDepth;
      b_tile[b_k][b_column] = b[element_at(p.b, k + b_k, b_column)];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const float4 x = *reinterpret_cast<const float4*>(&a_tile[i][row]);
      const float4 y = *reinterpret_cast<const float4*>(&b_tile[i][column]);
      const float left[4] = {x.x, x.y, x.z, x.w}, right[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int r = 0; r < 4; ++r) {
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[r][c] = fmaf(left[r], right[c], sum[r][c]);
      }
    }
    __syncthreads();
  }
  float* const out = matrix_of(p.out, head, chunk);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    float* const to = out + element_at(p.out, first_row + row + r, first_column + column);
    *reinterpret_cast<float4*>(to) = make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
  }
}

__global__ __launch_bounds__(64) void unfused_running_sum(ChunkParams p) {
  const int head = static_cast<int>(blockIdx.y), chunk = static_cast<int>(blockIdx.z);
  const int row = static_cast<int>(threadIdx.x);
  float sum = matrix_of(p.a, head, chunk)[element_at(p.a, row, 0)];
#pragma unroll
  for (int distance = 1; distance < kUnfusedChunk; distance *= 2) {
    const float earlier = __shfl_up(sum, distance, 64);
    if (row >= distance) sum += earlier;
  }
  matrix_of(p.out, head, chunk)[element_at(p.out, row, 0)] = sum;
}

/// A column per lane, a in LDS, where every lane reads the same element; forward substitution in
/// blocks of 16 rows, whose unknowns stay in registers.
__global__ __launch_bounds__(64) void unfused_solve(ChunkParams p) {
  constexpr int kBlock = 16;
  __shared__ float lower[kUnfusedChunk][kUnfusedChunk];
  __shared__ float solved[kUnfusedChunk][kUnfusedChunk];
  const int head = static_cast<int>(blockIdx.y), chunk = static_cast<int>(blockIdx.z);
  const int lane = static_cast<int>(threadIdx.x);
  const float* const a = matrix_of(p.a, head, chunk);
  const float* const b = matrix_of(p.b, head, chunk);
  float* const out = matrix_of(p.out, head, chunk);
  for (int i = 0; i < kUnfusedChunk; ++i) lower[i][lane] = a[element_at(p.a, i, lane)];
  __syncthreads();
#pragma unroll 1
  for (int first = 0; first < kUnfusedChunk; first += kBlock) {
    float x[kBlock];
#pragma unroll
    for (int i = 0; i < kBlock; ++i) x[i] = b[element_at(p.b, first + i, lane)];
#pragma unroll 1
    for (int j = 0; j < first; ++j) {
      const float known = solved[j][lane];
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] = fmaf(-lower[first + i][j], known, x[i]);
    }
#pragma unroll
    for (int i = 1; i < kBlock; ++i) {
#pragma unroll
      for (int j = 0; j < kBlock; ++j) {  // constant bounds: x stays in registers
        if (j < i) x[i] = fmaf(-lower[first + i][first + j], x[j], x[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      solved[first + i][lane] = x[i];
      out[element_at(p.out, first + i, lane)] = x[i];
    }
  }
}

}  // extern "C"

}  // namespace gdn::hip
