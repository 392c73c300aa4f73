// Rows of the gated norm (a token's value head each, by half a wave), as kernels of it and of its
// gradients read them. Included by .hip files only.
#pragma once

#include "hip/element_device.h"
#include "hip/gated_rms_norm/params.h"

namespace gdn::hip {

/// How many rows there are, as the offsets have it now.
__device__ __forceinline__ std::int64_t norm_row_count(const NormParams& p) {
  return p.sequence_offsets[p.num_sequences] * p.num_value_heads;
}

/// A row, and whether there is one.
struct NormRow {
  bool exists;
  std::int64_t first;     ///< its first element in a dense array
  std::int64_t token;     ///< and what it is of
  std::int64_t in_token;  ///< elements before it in its token

  /// Its first element in an array of this token stride.
  __device__ __forceinline__ std::int64_t at(std::int64_t token_stride) const {
    return token * token_stride + in_token;
  }
};
__device__ __forceinline__ NormRow norm_row(const NormParams& p, std::int64_t row,
                                            std::int64_t num_rows) {
  return {row < num_rows, row * p.width, row / p.num_value_heads,
          row % p.num_value_heads * p.width};
}

/// Over the lanes of a row; every lane of the wave takes part.
__device__ __forceinline__ float sum_over_row(float x) {
#pragma unroll
  for (int mask = kNormLanes / 2; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
  return x;
}

/// Of the row whose squares add up to `squares`: what its elements are multiplied by.
__device__ __forceinline__ float row_scale(const NormParams& p, float squares) {
  return 1.0f / sqrtf(squares / static_cast<float>(p.width) + p.eps);
}

}  // namespace gdn::hip
