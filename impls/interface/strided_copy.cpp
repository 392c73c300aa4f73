#include "interface/strided_copy.h"

#include <cstring>

#include "interface/float8.h"

namespace gdn {
namespace {

float load_float(const void* data, std::int64_t at, StorageType type) {
  float value = 0;
  switch (type) {
    case StorageType::bfloat16:
      decode(DType::bfloat16, static_cast<const std::uint16_t*>(data) + at, &value, 1);
      return value;
    case StorageType::float16:
      decode(DType::float16, static_cast<const std::uint16_t*>(data) + at, &value, 1);
      return value;
    case StorageType::float8_e4m3:
      return Float8E4M3::to_float(static_cast<const std::uint8_t*>(data)[at]);
    case StorageType::float8_e5m2:
      return Float8E5M2::to_float(static_cast<const std::uint8_t*>(data)[at]);
    default:
      return static_cast<const float*>(data)[at];
  }
}

void store_float(void* data, std::int64_t at, StorageType type, float value) {
  switch (type) {
    case StorageType::bfloat16:
      return encode(DType::bfloat16, &value, static_cast<std::uint16_t*>(data) + at, 1);
    case StorageType::float16:
      return encode(DType::float16, &value, static_cast<std::uint16_t*>(data) + at, 1);
    case StorageType::float8_e4m3:
      static_cast<std::uint8_t*>(data)[at] = Float8E4M3::from_float(value);
      return;
    case StorageType::float8_e5m2:
      static_cast<std::uint8_t*>(data)[at] = Float8E5M2::from_float(value);
      return;
    default:
      static_cast<float*>(data)[at] = value;
  }
}

std::int64_t load_integer(const void* data, std::int64_t at, StorageType type) {
  if (type == StorageType::int8) return static_cast<const std::int8_t*>(data)[at];
  if (type == StorageType::int32) return static_cast<const std::int32_t*>(data)[at];
  return static_cast<const std::int64_t*>(data)[at];
}

void store_integer(void* data, std::int64_t at, StorageType type, std::int64_t value) {
  if (type == StorageType::int8) {
    static_cast<std::int8_t*>(data)[at] = static_cast<std::int8_t>(value);
  } else if (type == StorageType::int32) {
    static_cast<std::int32_t*>(data)[at] = static_cast<std::int32_t>(value);
  } else {
    static_cast<std::int64_t*>(data)[at] = value;
  }
}

void copy_element(const StridedCopy& copy, std::int64_t from, std::int64_t to) {
  if (copy.from_type == copy.to_type) {  // every bit, those of a NaN too
    const std::int64_t bytes = size_of(copy.from_type);
    std::memcpy(static_cast<char*>(copy.to) + to * bytes,
                static_cast<const char*>(copy.from) + from * bytes,
                static_cast<std::size_t>(bytes));
  } else if (is_integer(copy.from_type)) {
    store_integer(copy.to, to, copy.to_type, load_integer(copy.from, from, copy.from_type));
  } else {
    store_float(copy.to, to, copy.to_type, load_float(copy.from, from, copy.from_type));
  }
}

bool is_bounded(const StridedCopy& copy, int dimension) {
  return copy.bound && dimension >= copy.bounded_begin && dimension < copy.bounded_end;
}

/// Whether dimension d and the one behind it are one: they follow one another in both arrays, and are
/// bounded together or not at all.
bool are_one(const StridedCopy& copy, int d) {
  const auto i = static_cast<std::size_t>(d);
  if (copy.rows && d == 0) return false;
  return copy.from_strides[i] == copy.extents[i + 1] * copy.from_strides[i + 1] &&
         copy.to_strides[i] == copy.extents[i + 1] * copy.to_strides[i + 1] &&
         is_bounded(copy, d) == is_bounded(copy, d + 1);
}

void remove_dimension(StridedCopy& copy, int d) {
  for (auto i = static_cast<std::size_t>(d); i + 1 < static_cast<std::size_t>(copy.rank); ++i) {
    copy.extents[i] = copy.extents[i + 1];
    copy.from_strides[i] = copy.from_strides[i + 1];
    copy.to_strides[i] = copy.to_strides[i + 1];
  }
  --copy.rank;
  if (copy.bounded_begin > d) --copy.bounded_begin;
  if (copy.bounded_end > d) --copy.bounded_end;
}

}  // namespace

std::int64_t StridedCopy::elements() const {
  std::int64_t count = 1;
  for (int d = 0; d < rank; ++d) count *= extents[static_cast<std::size_t>(d)];
  return count;
}

StridedCopy merged(const StridedCopy& copy) {
  StridedCopy result = copy;
  const bool has_rows = static_cast<bool>(copy.rows);
  for (int d = result.rank - 1; d >= (has_rows ? 1 : 0); --d) {
    const bool only_bounded =
        is_bounded(result, d) && result.bounded_end - result.bounded_begin == 1;
    if (result.extents[static_cast<std::size_t>(d)] == 1 && result.rank > 1 && !only_bounded) {
      remove_dimension(result, d);
    }
  }
  for (int d = result.rank - 2; d >= 0; --d) {
    if (!are_one(result, d)) continue;
    const auto i = static_cast<std::size_t>(d);
    result.extents[i + 1] *= result.extents[i];
    remove_dimension(result, d);
  }
  return result;
}

void copy_on_host(const StridedCopy& copy) {
  if (copy.elements() == 0) return;
  const std::int64_t bound = copy.bound ? copy.bound[0] : 0;
  StridedCopy::Extents place{};
  const auto rank = static_cast<std::size_t>(copy.rank);
  for (;;) {
    std::int64_t from = 0, to = 0, counted = 0;
    bool is_copied = true;
    for (std::size_t d = 0; d < rank; ++d) {
      std::int64_t at = place[d];
      if (is_bounded(copy, static_cast<int>(d))) counted = counted * copy.extents[d] + at;
      if (d == 0 && copy.rows) {
        at = copy.rows[at];
        is_copied = at >= 0;
      }
      from += at * copy.from_strides[d];
      to += at * copy.to_strides[d];
    }
    if (is_copied && (!copy.bound || counted < bound)) copy_element(copy, from, to);
    std::size_t d = rank;
    while (d > 0 && ++place[d - 1] == copy.extents[d - 1]) place[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace gdn
