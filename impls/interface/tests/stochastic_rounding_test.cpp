// Rounding by chance (docs/contract.md, section 1.10): the generator's published values, what is never rounded, and
// the distribution of what is.
#include "interface/stochastic_rounding.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "interface/dtype.h"

namespace gdn {
namespace {

std::uint16_t rounded(DType dtype, float x, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return dtype == DType::bfloat16 ? round_to_bfloat16(bits, random)
                                  : round_to_float16(bits, random);
}

float value_of(DType dtype, std::uint16_t bits) {
  float x = 0;
  decode(dtype, &bits, &x, 1);
  return x;
}

float rounded_value(DType dtype, float x, std::uint32_t random) {
  return value_of(dtype, rounded(dtype, x, random));
}

constexpr DType kTypes[] = {DType::bfloat16, DType::float16};

// The first of the published test vectors, and the words of every counter and key apart.
TEST(StochasticRounding, RandomBitsArePhiloxs) {
  const RoundingBits bits = rounding_bits(0, 0);
  EXPECT_EQ(bits.words[0], 0x5f6fb709u);
  EXPECT_EQ(bits.words[1], 0x0d893f64u);
  EXPECT_EQ(bits.words[2], 0x4f121f81u);
  EXPECT_EQ(bits.words[3], 0x4f730a48u);
  EXPECT_EQ(bits.of(0), 0xb709u);
  EXPECT_EQ(bits.of(1), 0x5f6fu);
  EXPECT_EQ(bits.of(7), 0x4f73u);
  EXPECT_NE(rounding_bits(1, 0).words[0], bits.words[0]);
  EXPECT_NE(rounding_bits(0, 1).words[0], bits.words[0]);
}

TEST(StochasticRounding, WhatTheTypeHoldsStaysAsItIs) {
  for (const DType dtype : kTypes) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float x = value_of(dtype, static_cast<std::uint16_t>(bits));
      for (const std::uint32_t random : {0u, 0x8000u, 0xffffu}) {
        const float y = rounded_value(dtype, x, random);
        if (std::isnan(x)) {
          ASSERT_TRUE(std::isnan(y)) << short_name(dtype) << " " << bits;
        } else {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(x), std::bit_cast<std::uint32_t>(y))
              << short_name(dtype) << " " << bits;
        }
      }
    }
  }
  // A NaN whose digits are all below those that stay.
  const float low_nan = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(rounded_value(DType::bfloat16, low_nan, 0)));
  EXPECT_TRUE(std::isnan(rounded_value(DType::float16, low_nan, 0xffff)));
}

// Between neighbours, the lower one up to a random number and the upper one from there on: for the normal and the
// subnormal numbers of either type and across an exponent, of both signs.
TEST(StochasticRounding, TheUpperNeighbourIsTakenAsOftenAsItIsNear) {
  for (const DType dtype : kTypes) {
    for (const std::uint32_t lower : {0x0000u, 0x0001u, 0x0234u, 0x03ffu, 0x0400u, 0x2e66u, 0x3bffu,
                                      0x3f80u, 0x4c12u, 0x7b00u}) {
      const float low = value_of(dtype, static_cast<std::uint16_t>(lower));
      const float high = value_of(dtype, static_cast<std::uint16_t>(lower + 1));
      for (const float fraction : {0x1p-8f, 0.25f, 0.5f, 0.625f, 1 - 0x1p-8f}) {
        // bfloat16's smallest numbers lie further apart than float32 has digits between them.
        const float x = low + fraction * (high - low);
        if (static_cast<double>(x) !=
            low + static_cast<double>(fraction) * (static_cast<double>(high) - low))
          continue;
        for (const float sign : {1.0f, -1.0f}) {
          int ups = 0;
          for (std::uint32_t random = 0; random < 0x10000; ++random) {
            const float y = rounded_value(dtype, sign * x, random);
            ASSERT_TRUE(y == sign * low || y == sign * high) << short_name(dtype) << " " << lower;
            ups += y == sign * high ? 1 : 0;
          }
          EXPECT_EQ(ups, static_cast<int>(fraction * 65536)) << short_name(dtype) << " " << lower;
        }
      }
    }
  }
}

TEST(StochasticRounding, BeyondTheTypeIsInfinityAndFarBelowItIsZero) {
  EXPECT_EQ(rounded_value(DType::float16, 65536.0f, 0), std::numeric_limits<float>::infinity());
  EXPECT_EQ(rounded_value(DType::float16, 65504.0f, 0xffff), 65504.0f);
  EXPECT_EQ(rounded_value(DType::float16, 65520.0f, 0x7fff), 65504.0f);
  EXPECT_EQ(rounded_value(DType::float16, 65520.0f, 0x8000),
            std::numeric_limits<float>::infinity());
  EXPECT_EQ(rounded_value(DType::float16, -1e30f, 0), -std::numeric_limits<float>::infinity());
  for (const float tiny : {0x1p-60f, 0x1p-130f, std::numeric_limits<float>::denorm_min()}) {
    EXPECT_EQ(rounded_value(DType::float16, tiny, 0xffff), 0.0f);
  }
}

// By the generator's numbers: the mean of many roundings is the value and their variance f (1 - f) steps, within five
// standard deviations, whether seeds differ or places of a row; and neighbours do not go the same way.
TEST(StochasticRounding, MeanAndVarianceAreThoseOfItsDistribution) {
  constexpr int kGroups = 1 << 14;
  constexpr int kCount = kGroups * kRoundingGroup;
  for (const DType dtype : kTypes) {
    const float step = dtype == DType::bfloat16 ? 0x1p-7f : 0x1p-10f;
    for (const float fraction : {0.125f, 0.5f, 0.8125f}) {
      for (const bool by_seed : {false, true}) {
        double sum = 0;
        double squares = 0;
        double together = 0;
        for (std::uint32_t i = 0; i < kGroups; ++i) {
          const RoundingBits bits = by_seed ? rounding_bits(i, 12345) : rounding_bits(12345, i);
          double before = 0;
          for (int j = 0; j < kRoundingGroup; ++j) {
            const double error =
                (rounded_value(dtype, 1 + fraction * step, bits.of(j)) - 1) / step - fraction;
            sum += error;
            squares += error * error;
            if (j > 0) together += error * before;
            before = error;
          }
        }
        const double variance = fraction * (1 - fraction);
        SCOPED_TRACE(short_name(dtype) + " " + std::to_string(fraction));
        EXPECT_LE(std::abs(sum / kCount), 5 * std::sqrt(variance / kCount));
        EXPECT_LE(std::abs(squares / kCount - variance), 5 * std::sqrt(1.0 / 12 / kCount));
        const int pairs = kGroups * (kRoundingGroup - 1);
        EXPECT_LE(std::abs(together / pairs), 5 * variance / std::sqrt(pairs));
      }
    }
  }
}

}  // namespace
}  // namespace gdn
