// Element types of tokens and state pools, and their exact host conversions (round to nearest
// even). int8 is of outputs alone that have scales beside them (Operand::scaled).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gdn {

enum class DType {
  float32,
  bfloat16,
  float16,
  int8,  ///< -127..127. -128 stands for NaN: nobody writes it, and what is unwritten holds it
};

constexpr std::size_t size_of(DType dtype) {
  return dtype == DType::float32 ? 4 : dtype == DType::int8 ? 1 : 2;
}

/// Unit roundoff of the type: half the distance from 1 to the next larger value; of int8 half a step of the
/// largest element.
double unit_roundoff(DType dtype);

/// "float32", "bfloat16", "float16", "int8": the spelling of case files.
std::string long_name(DType dtype);
/// "f32", "bf16", "f16", "i8": the spelling of Problem strings and the command line.
std::string short_name(DType dtype);
/// A floating-point type in either spelling; throws Error(bad_input) naming `field` otherwise.
DType parse_dtype(std::string_view text, std::string_view field);

/// `value` rounded to `dtype` (nearest even, overflow to infinity, in int8 to its largest; NaN kept) and widened
/// again.
float round_to(DType dtype, float value);

/// Store `count` floats at `destination` in `dtype`, rounding each; and the exact inverse.
void encode(DType dtype, const float* source, void* destination, std::int64_t count);
void decode(DType dtype, const void* source, float* destination, std::int64_t count);

}  // namespace gdn
