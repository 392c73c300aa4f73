// NumberArray: gates, betas and what belongs to them, as their owner holds them: float32 or a 16-bit type,
// any distance apart. Plain C++: device code includes it. Tokens are fewer than 2^31 (index_array.h).
#pragma once

#include <cstdint>

#include "interface/dtype.h"

namespace gdn {

/// Value e of entry i lies at data[i * stride + e * inner_stride]; an entry is a token, or all there is.
struct NumberArray {
  const void* data = nullptr;
  DType type = DType::float32;
  std::int32_t inner_stride = 1;  ///< elements; 0: one for all
  std::int32_t stride = 0;        ///< likewise

  constexpr explicit operator bool() const { return data != nullptr; }
  constexpr std::int64_t index(std::int64_t i, std::int32_t e) const {
    return std::int64_t{static_cast<std::int32_t>(i)} * stride + std::int64_t{e} * inner_stride;
  }
  constexpr std::int64_t element_bytes() const { return type == DType::float32 ? 4 : 2; }
  /// The values of an entry, `width` of them, lie one behind the other, and the next entry's behind them.
  constexpr bool lies_densely(std::int64_t width) const {
    return inner_stride == 1 && stride == width;
  }
  /// The same, in float32.
  constexpr bool is_dense(std::int64_t width) const {
    return type == DType::float32 && lies_densely(width);
  }
};

/// On the host.
inline float value_at(const NumberArray& numbers, std::int64_t i, std::int64_t e) {
  const std::int64_t at = numbers.index(i, static_cast<std::int32_t>(e));
  if (numbers.type == DType::float32) return static_cast<const float*>(numbers.data)[at];
  float value = 0;
  decode(numbers.type, static_cast<const std::uint16_t*>(numbers.data) + at, &value, 1);
  return value;
}

}  // namespace gdn
