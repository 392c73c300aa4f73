// Sums over a batch whose parts the blocks of an earlier launch left in the workspace: added in one
// order always, in float64. For gradients of weights; no atomics.
#pragma once

#include <cstdint>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

constexpr int kSumColumns = 32;  ///< of a block
constexpr int kSumRows = 8;      ///< threads of a column
constexpr int kSumThreads = kSumColumns * kSumRows;

#ifdef __CUDACC__

/// Of `sums` [parts, columns]: this block's columns, each a whole sum in one thread. False of a
/// thread that has none. Every thread of the block of kSumThreads takes part.
__device__ __forceinline__ bool sum_of_parts(const float* sums, std::int64_t parts,
                                             std::int64_t columns, std::int64_t& column,
                                             double& sum) {
  __shared__ double shared[kSumRows][kSumColumns];
  const int thread = static_cast<int>(threadIdx.x);
  const int column_of_block = thread % kSumColumns, row = thread / kSumColumns;
  column = static_cast<std::int64_t>(blockIdx.x) * kSumColumns + column_of_block;
  sum = 0;
  if (column < columns) {
    for (std::int64_t part = row; part < parts; part += kSumRows) {
      sum += static_cast<double>(sums[part * columns + column]);
    }
  }
  shared[row][column_of_block] = sum;
  __syncthreads();
  if (row > 0 || column >= columns) return false;
#pragma unroll
  for (int i = 1; i < kSumRows; ++i) sum += shared[i][column_of_block];
  return true;
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
