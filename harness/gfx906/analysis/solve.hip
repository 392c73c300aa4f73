// Three ways to invert a unit lower triangular 64 x 64 matrix on one wave, by forward substitution.
#include <hip/hip_runtime.h>

#include "harness/gfx906/analysis/params.h"

namespace gdn::hip {
namespace {

constexpr int kRows = 64;

/// The part below the diagonal in LDS, transposed: column j of all rows is 64 neighbouring words.
__device__ __forceinline__ void load_transposed(const SolveParams& p,
                                                float (&columns)[kRows][kRows + 1]) {
  const float* const from = p.lower + static_cast<std::int64_t>(blockIdx.x) * kRows * kRows;
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < kRows; ++i) {
    columns[lane][i] = i > lane ? from[i * kRows + lane] : 0.0f;
  }
  __syncthreads();
}

/// A row per lane, one right-hand side after another: the value solved last goes from its lane to
/// all by broadcast(x, lane).
template <typename Broadcast>
__device__ __forceinline__ void solve_rows(const SolveParams& p, Broadcast broadcast) {
  __shared__ float columns[kRows][kRows + 1];
  load_transposed(p, columns);
  const int row = static_cast<int>(threadIdx.x);
  float* const to = p.inverse + static_cast<std::int64_t>(blockIdx.x) * kRows * kRows;
#pragma unroll 1
  for (int side = 0; side < kRows; ++side) {
    float x = row == side ? 1.0f : 0.0f;
#pragma unroll
    for (int j = 0; j < kRows - 1; ++j) {
      const float solved = broadcast(x, j);
      x = fmaf(-columns[j][row], solved, x);
    }
    to[row * kRows + side] = x;
  }
}

}  // namespace

extern "C" {

__global__ __launch_bounds__(64) void solve_by_shuffle(SolveParams p) {
  solve_rows(p, [](float x, int lane) { return __shfl(x, lane, 64); });
}
__global__ __launch_bounds__(64) void solve_by_readlane(SolveParams p) {
  solve_rows(p, [](float x, int lane) {
    return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, x), lane));
  });
}

/// A right-hand side per lane: nothing crosses lanes, all read the same word of the matrix from
/// LDS. Blocks of 16 rows, whose unknowns stay in registers.
__global__ __launch_bounds__(64) void solve_by_column(SolveParams p) {
  constexpr int kBlock = 16;
  __shared__ float lower[kRows][kRows];
  __shared__ float solved[kRows][kRows];
  const float* const from = p.lower + static_cast<std::int64_t>(blockIdx.x) * kRows * kRows;
  float* const to = p.inverse + static_cast<std::int64_t>(blockIdx.x) * kRows * kRows;
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < kRows; ++i) lower[i][lane] = from[i * kRows + lane];
  __syncthreads();
#pragma unroll 1
  for (int first = 0; first < kRows; first += kBlock) {
    float x[kBlock];
#pragma unroll
    for (int i = 0; i < kBlock; ++i) x[i] = first + i == lane ? 1.0f : 0.0f;
#pragma unroll 1
    for (int j = 0; j < first; ++j) {
      const float known = solved[j][lane];
#pragma unroll
      for (int i = 0; i < kBlock; ++i) x[i] = fmaf(-lower[first + i][j], known, x[i]);
    }
#pragma unroll
    for (int i = 1; i < kBlock; ++i) {
#pragma unroll
      for (int j = 0; j < kBlock; ++j) {
        if (j < i) x[i] = fmaf(-lower[first + i][first + j], x[j], x[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      solved[first + i][lane] = x[i];
      to[(first + i) * kRows + lane] = x[i];
    }
  }
}

}  // extern "C"

}  // namespace gdn::hip
