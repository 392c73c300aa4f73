// Element types of tokens and state pools, and their exact host conversions (round to nearest
// even).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gdn {

enum class DType { float32, bfloat16, float16 };

constexpr std::size_t size_of(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

/// Unit roundoff of the type: half the distance from 1 to the next larger value.
double unit_roundoff(DType dtype);

/// "float32", "bfloat16", "float16": the spelling of case files.
std::string long_name(DType dtype);
/// "f32", "bf16", "f16": the spelling of Problem strings and the command line.
std::string short_name(DType dtype);
/// Accepts either spelling; throws Error(bad_input) naming `field` otherwise.
DType parse_dtype(std::string_view text, std::string_view field);

/// `value` rounded to `dtype` (nearest even, overflow to infinity, NaN kept) and widened again.
float round_to(DType dtype, float value);

/// Store `count` floats at `destination` in `dtype`, rounding each; and the exact inverse.
void encode(DType dtype, const float* source, void* destination, std::int64_t count);
void decode(DType dtype, const void* source, float* destination, std::int64_t count);

}  // namespace gdn
