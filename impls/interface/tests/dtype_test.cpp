// Element types: what a value becomes in storage, and what storage means.
#include "interface/dtype.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <cstring>
#include <vector>

namespace gdn {
namespace {

float from_bits(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

TEST(DType, StorageThatIsReadAndWrittenAgainIsTheSame) {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    std::vector<std::uint16_t> codes(65536), again(65536);
    for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
    std::vector<float> values(65536);
    decode(dtype, codes.data(), values.data(), 65536);
    encode(dtype, values.data(), again.data(), 65536);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (std::isnan(values[i])) continue;
      ASSERT_EQ(again[i], codes[i]) << long_name(dtype) << ", value " << values[i];
    }
  }
}

TEST(DType, Int8RoundsToNearestEvenAndKeepsNaNApart) {
  const std::vector<float> values = {0.5f, 1.5f, -2.5f, 126.5f, 127.4f, 1000, -1000, std::nanf("")};
  const std::vector<float> rounded = {0, 2, -2, 126, 127, 127, -127};
  std::vector<std::int8_t> stored(values.size());
  encode(DType::int8, values.data(), stored.data(), static_cast<std::int64_t>(values.size()));
  std::vector<float> read(values.size());
  decode(DType::int8, stored.data(), read.data(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    EXPECT_EQ(read[i], rounded[i]) << values[i];
    EXPECT_EQ(round_to(DType::int8, values[i]), rounded[i]) << values[i];
  }
  EXPECT_EQ(stored.back(), -128);
  EXPECT_TRUE(std::isnan(read.back()));
}

// Around every bfloat16 value, the float32 values below, at and above the half way to the next.
TEST(DType, Bfloat16RoundsToNearestEvenAndKeepsNaN) {
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 65536; ++high) {
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(from_bits(high << 16 | low));
    }
  }
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::uint16_t> codes(values.size());
  encode(DType::bfloat16, values.data(), codes.data(), count);
  std::vector<float> stored(values.size());
  decode(DType::bfloat16, codes.data(), stored.data(), count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(stored[i])) << "code " << codes[i];
      continue;
    }
    ASSERT_EQ(stored[i], static_cast<float>(Eigen::bfloat16(values[i]))) << values[i];
    ASSERT_EQ(std::signbit(stored[i]), std::signbit(values[i])) << values[i];
    ASSERT_EQ(stored[i], round_to(DType::bfloat16, values[i])) << values[i];
  }
}

}  // namespace
}  // namespace gdn
