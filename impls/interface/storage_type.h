// Element types of arrays as their owners hold them: those that operands have (interface/dtype.h, and
// int64 for indices), and those that only other people's tensors have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "interface/dtype.h"

namespace gdn {

enum class StorageType {
  float32,
  bfloat16,
  float16,
  float8_e4m3,  ///< 4 bits of exponent, no infinity, one NaN of either sign (OCP 8-bit, "fn")
  float8_e5m2,
  int64,
  int32,
  int8,
};

StorageType storage_type(DType dtype);
/// The inverse; none where operands have no such type.
std::optional<DType> dtype_of(StorageType type);
std::int64_t size_of(StorageType type);
bool is_integer(StorageType type);
/// Of indices as kernels read them: int64 or int32.
bool is_index_type(StorageType type);
/// "f32", "bf16", "f16", "f8_e4m3", "f8_e5m2", "int64", "int32", "i8".
const std::string& short_name(StorageType type);
/// The inverse; throws Error(bad_input) naming `operand` and the types there are.
StorageType parse_storage_type(std::string_view text, std::string_view operand);
/// Whether every value of `narrow` is one of `wide`, so that going there and back changes nothing.
bool holds_all_of(StorageType wide, StorageType narrow);

}  // namespace gdn
