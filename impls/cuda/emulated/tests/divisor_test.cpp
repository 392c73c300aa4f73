// Division by multiplication (cuda/divisor.h) is exact for every pair of numbers it is for.
#include "cuda/divisor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

namespace gdn::GDN_CUDA_TARGET {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();

void expect_exact(std::int64_t n, std::int64_t divisor) {
  const Divisor by(divisor);
  const auto number = static_cast<std::uint32_t>(n);
  ASSERT_EQ(by.divide(number), n / divisor) << n << " / " << divisor;
  ASSERT_EQ(by.remainder(number), n % divisor) << n << " % " << divisor;
}

TEST(Divisor, IsExactAroundEveryMultiple) {
  for (std::int64_t divisor = 1; divisor <= 200; ++divisor) {
    for (std::int64_t multiple = 0; multiple <= 100; ++multiple) {
      for (std::int64_t n : {multiple * divisor - 1, multiple * divisor, multiple * divisor + 1}) {
        if (n >= 0) expect_exact(n, divisor);
      }
    }
  }
}

TEST(Divisor, IsExactAtTheEndsOfItsRange) {
  for (std::int64_t divisor = 1; divisor <= kLargest; divisor = 2 * divisor + divisor % 3) {
    for (std::int64_t d : {divisor - 1, divisor, divisor + 1}) {
      if (d < 1 || d > kLargest) continue;
      for (std::int64_t n : {kLargest, kLargest - 1, kLargest / d * d, kLargest / d * d - 1}) {
        if (n >= 0) expect_exact(n, d);
      }
    }
  }
  expect_exact(kLargest, kLargest);
  expect_exact(kLargest - 1, kLargest);
}

TEST(Divisor, IsExactForAnyPair) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto n = static_cast<std::int64_t>(random() >> 33);
    const auto bits = static_cast<int>(random() % 31);
    const std::int64_t divisor =
        1 + static_cast<std::int64_t>(random() % (std::uint64_t{1} << bits));
    expect_exact(n, divisor);
  }
}

}  // namespace
}  // namespace gdn::GDN_CUDA_TARGET
