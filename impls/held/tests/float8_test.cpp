// The 8-bit types against the definition: every value by its bits, and rounding by a search among all.
#include "interface/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "interface/storage_type.h"

namespace gdn {
namespace {

/// By the definition: (-1)^s 2^(e - bias) (1 + f / 2^F), and 2^(1 - bias) f / 2^F below.
double value_of(int bits, int fraction_bits, int bias) {
  const int exponent = (bits & 0x7f) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
  const double part = std::ldexp(fraction, -fraction_bits);
  const double size =
      exponent == 0 ? std::ldexp(part, 1 - bias) : std::ldexp(1 + part, exponent - bias);
  return (bits & 0x80) != 0 ? -size : size;
}

template <typename Type>
void expect_every_value(int fraction_bits, int bias, int largest) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = Type::to_float(static_cast<std::uint8_t>(bits));
    if ((bits & 0x7f) > largest) {
      EXPECT_FALSE(std::isfinite(value)) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(value), value_of(bits, fraction_bits, bias)) << bits;
      EXPECT_EQ(std::signbit(value), bits >= 128) << bits;
      EXPECT_EQ(int{Type::from_float(value)}, bits);
    }
  }
}

/// Of the two values around x the nearer one, of two as near the one with an even last bit.
template <typename Type>
void expect_nearest(float x, int fraction_bits, int bias, int largest) {
  int best = 0;
  double distance = std::numeric_limits<double>::infinity();
  // One step past the largest value stands for what overflows.
  for (int bits = 0; bits <= largest + 1; ++bits) {
    const double away =
        std::abs(std::abs(static_cast<double>(x)) - value_of(bits, fraction_bits, bias));
    if (away < distance || (away == distance && bits % 2 == 0)) {
      best = bits;
      distance = away;
    }
  }
  const float rounded = Type::to_float(Type::from_float(x));
  if (best > largest) {
    EXPECT_FALSE(std::isfinite(rounded)) << x;
  } else {
    EXPECT_EQ(std::abs(static_cast<double>(rounded)), value_of(best, fraction_bits, bias)) << x;
  }
  EXPECT_EQ(std::signbit(rounded), std::signbit(x)) << x;
}

TEST(Float8, EveryValueIsWhatItsBitsSayAndComesBack) {
  expect_every_value<Float8E4M3>(3, 7, 0x7e);
  expect_every_value<Float8E5M2>(2, 15, 0x7b);
}

TEST(Float8, RoundsToTheNearestValueAndToEvenBetweenTwo) {
  for (int bits = 0; bits < 0x7f; ++bits) {
    for (const bool is_e4m3 : {true, false}) {
      const int fraction = is_e4m3 ? 3 : 2, bias = is_e4m3 ? 7 : 15,
                largest = is_e4m3 ? 0x7e : 0x7b;
      if (bits > largest) continue;
      const double low = value_of(bits, fraction, bias), high = value_of(bits + 1, fraction, bias);
      for (const double part : {0.25, 0.4999, 0.5, 0.5001, 0.75, 1.0}) {
        for (const double sign : {1.0, -1.0}) {
          const auto x = static_cast<float>(sign * (low + part * (high - low)));
          if (is_e4m3) {
            expect_nearest<Float8E4M3>(x, fraction, bias, largest);
          } else {
            expect_nearest<Float8E5M2>(x, fraction, bias, largest);
          }
        }
      }
    }
  }
}

TEST(Float8, WhatIsBeyondTheLargestValueIsNaNOrInfinityAndTinyValuesAreZero) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {480.0f, 1e9f, infinity}) {
    EXPECT_EQ(int{Float8E4M3::from_float(x)}, 0x7f) << x;
    EXPECT_EQ(int{Float8E4M3::from_float(-x)}, 0xff) << x;
  }
  EXPECT_EQ(Float8E4M3::to_float(Float8E4M3::from_float(463.0f)), 448.0f);
  EXPECT_EQ(Float8E5M2::to_float(Float8E5M2::from_float(1e9f)), infinity);
  EXPECT_EQ(Float8E5M2::to_float(Float8E5M2::from_float(-infinity)), -infinity);
  for (const float x : {0.0f, 1e-30f, 1e-44f}) {
    EXPECT_EQ(int{Float8E4M3::from_float(x)}, 0) << x;
    EXPECT_EQ(int{Float8E5M2::from_float(-x)}, 0x80) << x;
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Float8E4M3::to_float(Float8E4M3::from_float(nan))));
  EXPECT_TRUE(std::isnan(Float8E5M2::to_float(Float8E5M2::from_float(nan))));
}

TEST(StorageType, ATypeHoldsAllOfAnotherOnlyWhereNoValueIsLost) {
  using enum StorageType;
  for (const StorageType narrow : {float32, bfloat16, float16, float8_e4m3, float8_e5m2}) {
    EXPECT_TRUE(holds_all_of(float32, narrow)) << short_name(narrow);
    EXPECT_EQ(holds_all_of(narrow, float32), narrow == float32) << short_name(narrow);
    EXPECT_TRUE(holds_all_of(narrow, narrow)) << short_name(narrow);
    EXPECT_FALSE(holds_all_of(int64, narrow)) << short_name(narrow);
    EXPECT_FALSE(holds_all_of(narrow, int32)) << short_name(narrow);
  }
  EXPECT_FALSE(holds_all_of(bfloat16, float16));
  EXPECT_FALSE(holds_all_of(float16, bfloat16));
  EXPECT_TRUE(holds_all_of(float16, float8_e5m2));
  EXPECT_TRUE(holds_all_of(bfloat16, float8_e4m3));
  EXPECT_FALSE(holds_all_of(float8_e5m2, float8_e4m3));
  EXPECT_FALSE(holds_all_of(float8_e4m3, float8_e5m2));
  EXPECT_TRUE(holds_all_of(int64, int32));
  EXPECT_FALSE(holds_all_of(int32, int64));
}

}  // namespace
}  // namespace gdn
