#include "interface/dtype.h"

#include <Eigen/Core>
#include <cstring>

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

}  // namespace

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return 0x1p-24;
    case DType::bfloat16:
      return 0x1p-8;
    case DType::float16:
      return 0x1p-11;
  }
  return 0x1p-24;
}

std::string long_name(DType dtype) {
  return dtype == DType::float32 ? "float32" : dtype == DType::bfloat16 ? "bfloat16" : "float16";
}

std::string short_name(DType dtype) {
  return dtype == DType::float32 ? "f32" : dtype == DType::bfloat16 ? "bf16" : "f16";
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
  }
}

}  // namespace gdn
