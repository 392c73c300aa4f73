// Long sums of kernels: float32 with what each addition rounds away added up beside it, since kernels here have no
// float64. Included by .hip files only.
#pragma once

#include "hip/lanes_device.h"

namespace gdn::hip {

/// A sum and what its additions rounded away.
struct CompensatedSum {
  float sum = 0.0f, rest = 0.0f;

  __device__ __forceinline__ void add(float x) {
    const float total = sum + x, of_x = total - sum;
    rest += (sum - (total - of_x)) + (x - of_x);
    sum = total;
  }
  __device__ __forceinline__ void add(const CompensatedSum& other) {
    add(other.sum);
    rest += other.rest;
  }
};

}  // namespace gdn::hip
