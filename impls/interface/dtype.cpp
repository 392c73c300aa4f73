#include "interface/dtype.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "interface/error.h"

namespace gdn {
namespace {

template <typename Storage>
void encode_as(const float* source, void* destination, std::int64_t count) {
  auto* out = static_cast<Storage*>(destination);
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<Storage>(source[i]);
}

template <typename Storage>
void decode_as(const void* source, float* destination, std::int64_t count) {
  const auto* in = static_cast<const Storage*>(source);
  for (std::int64_t i = 0; i < count; ++i) destination[i] = static_cast<float>(in[i]);
}

// bfloat16 by integers and without branches, so that compilers make vector code of it: most of the
// time to verify a large batch went into these conversions.
void encode_bfloat16(const float* source, void* destination, std::int64_t count) {
  auto* out = static_cast<std::uint16_t*>(destination);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, source + i, sizeof bits);
    const std::uint32_t high = bits >> 16;
    const std::uint32_t to_nearest_even = (bits + 0x7fffu + (high & 1u)) >> 16;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    out[i] = static_cast<std::uint16_t>(is_nan ? high | 0x40u : to_nearest_even);
  }
}

void decode_bfloat16(const void* source, float* destination, std::int64_t count) {
  const auto* in = static_cast<const std::uint16_t*>(source);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = std::uint32_t{in[i]} << 16;
    std::memcpy(destination + i, &bits, sizeof bits);
  }
}

constexpr std::int8_t kInt8NaN = -128;

float round_to_int8(float value) {
  return std::isnan(value) ? value : std::clamp(std::nearbyint(value), -127.0f, 127.0f);
}

void encode_int8(const float* source, void* destination, std::int64_t count) {
  auto* out = static_cast<std::int8_t*>(destination);
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = std::isnan(source[i]) ? kInt8NaN : static_cast<std::int8_t>(round_to_int8(source[i]));
  }
}

void decode_int8(const void* source, float* destination, std::int64_t count) {
  const auto* in = static_cast<const std::int8_t*>(source);
  for (std::int64_t i = 0; i < count; ++i) {
    destination[i] = in[i] == kInt8NaN ? std::numeric_limits<float>::quiet_NaN() : in[i];
  }
}

}  // namespace

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return 0x1p-24;
    case DType::bfloat16:
      return 0x1p-8;
    case DType::float16:
      return 0x1p-11;
    case DType::int8:
      return 1.0 / 254;
  }
  return 0x1p-24;
}

std::string long_name(DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return "bfloat16";
    case DType::float16:
      return "float16";
    case DType::int8:
      return "int8";
    default:
      return "float32";
  }
}

std::string short_name(DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return "bf16";
    case DType::float16:
      return "f16";
    case DType::int8:
      return "i8";
    default:
      return "f32";
  }
}

DType parse_dtype(std::string_view text, std::string_view field) {
  for (DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    if (text == long_name(dtype) || text == short_name(dtype)) return dtype;
  }
  throw_bad_input(std::string(field) + ": '" + std::string(text) +
                  "' is no element type; expected f32, bf16 or f16");
}

float round_to(DType dtype, float value) {
  switch (dtype) {
    case DType::float32:
      return value;
    case DType::bfloat16:
      return static_cast<float>(Eigen::bfloat16(value));
    case DType::float16:
      return static_cast<float>(Eigen::half(value));
    case DType::int8:
      return round_to_int8(value);
  }
  return value;
}

void encode(DType dtype, const float* source, void* destination, std::int64_t count) {
  if (count == 0) return;
  switch (dtype) {
    case DType::float32:
      std::memcpy(destination, source, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case DType::bfloat16:
      return encode_bfloat16(source, destination, count);
    case DType::float16:
      return encode_as<Eigen::half>(source, destination, count);
    case DType::int8:
      return encode_int8(source, destination, count);
  }
}

void decode(DType dtype, const void* source, float* destination, std::int64_t count) {
  if (count == 0) return;
  switch (dtype) {
    case DType::float32:
      std::memcpy(destination, source, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case DType::bfloat16:
      return decode_bfloat16(source, destination, count);
    case DType::float16:
      return decode_as<Eigen::half>(source, destination, count);
    case DType::int8:
      return decode_int8(source, destination, count);
  }
}

}  // namespace gdn
