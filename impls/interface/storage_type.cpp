#include "interface/storage_type.h"

#include <array>
#include <utility>

#include "interface/error.h"

namespace gdn {
namespace {

struct Properties {
  StorageType type;
  std::string name;
  std::int64_t bytes;
  /// Of a floating-point number: bits of the significand, the leading one among them, and the exponents
  /// of the largest finite value and of the smallest one above zero.
  int significand_bits = 0;
  int largest_exponent = 0;
  int smallest_exponent = 0;
};

const std::array<Properties, 8>& table() {
  static const std::array<Properties, 8> properties = {{
      {StorageType::float32, "f32", 4, 24, 127, -149},
      {StorageType::bfloat16, "bf16", 2, 8, 127, -133},
      {StorageType::float16, "f16", 2, 11, 15, -24},
      {StorageType::float8_e4m3, "f8_e4m3", 1, 4, 8, -9},
      {StorageType::float8_e5m2, "f8_e5m2", 1, 3, 15, -16},
      {StorageType::int64, "int64", 8},
      {StorageType::int32, "int32", 4},
      {StorageType::int8, "i8", 1},
  }};
  return properties;
}

const Properties& properties_of(StorageType type) {
  return table()[static_cast<std::size_t>(type)];
}

}  // namespace

StorageType storage_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return StorageType::float32;
    case DType::bfloat16:
      return StorageType::bfloat16;
    case DType::float16:
      return StorageType::float16;
    case DType::int8:
      return StorageType::int8;
  }
  return StorageType::float32;
}

std::optional<DType> dtype_of(StorageType type) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::int8}) {
    if (storage_type(dtype) == type) return dtype;
  }
  return std::nullopt;
}

std::int64_t size_of(StorageType type) { return properties_of(type).bytes; }
bool is_integer(StorageType type) { return properties_of(type).significand_bits == 0; }
bool is_index_type(StorageType type) {
  return type == StorageType::int64 || type == StorageType::int32;
}
const std::string& short_name(StorageType type) { return properties_of(type).name; }

StorageType parse_storage_type(std::string_view text, std::string_view operand) {
  std::string names;
  for (const Properties& properties : table()) {
    if (properties.name == text) return properties.type;
    names += (names.empty() ? "" : ", ") + properties.name;
  }
  throw_bad_input(std::string(operand) + ": '" + std::string(text) +
                  "' is no element type; expected one of " + names);
}

bool holds_all_of(StorageType wide, StorageType narrow) {
  if (is_integer(wide) != is_integer(narrow)) return false;
  const Properties& a = properties_of(wide);
  const Properties& b = properties_of(narrow);
  if (is_integer(wide)) return a.bytes >= b.bytes;
  return a.significand_bits >= b.significand_bits && a.largest_exponent >= b.largest_exponent &&
         a.smallest_exponent <= b.smallest_exponent;
}

}  // namespace gdn
