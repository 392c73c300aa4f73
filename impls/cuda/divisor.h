// Division by a number that the host knows: a multiplication on the device. A division of two integers
// is a chain of some thirty dependent instructions there, which short kernels wait for before their
// first load.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// n / divisor for 0 <= n < 2^31 and 1 <= divisor < 2^31: floor(n m / 2^(31 + s)), where 2^s is the least
/// power of two that is no less than the divisor and m = ceil(2^(31 + s) / divisor) < 2^32. It is exact,
/// because m exceeds 2^(31 + s) / divisor by less than 1, so that the product exceeds n / divisor by
/// less than n / 2^(31 + s) < 1 / divisor (Granlund and Montgomery, 1994, theorem 4.2).
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(std::int64_t divisor) : divisor_(static_cast<std::uint32_t>(divisor)) {
    while ((std::int64_t{1} << shift_) < divisor) ++shift_;
    multiplier_ =
        static_cast<std::uint32_t>(((std::uint64_t{1} << (31 + shift_)) + divisor_ - 1) / divisor_);
  }

  __host__ __device__ std::uint32_t divide(std::uint32_t n) const {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(n) * multiplier_) >> 31 >>
                                      shift_);
  }
  __host__ __device__ std::uint32_t remainder(std::uint32_t n) const {
    return n - divide(n) * divisor_;
  }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t multiplier_ = std::uint32_t{1} << 31;
  std::uint32_t shift_ = 0;
};

}  // namespace gdn::GDN_CUDA_TARGET
