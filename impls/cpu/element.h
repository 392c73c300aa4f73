// Element addresses in arrays of any element type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interface/dtype.h"

namespace gdn::cpu {

/// Address of element `index` of an array of `dtype`.
inline const std::byte* element(const void* array, std::int64_t index, DType dtype) {
  return static_cast<const std::byte*>(array) + index * static_cast<std::int64_t>(size_of(dtype));
}
inline std::byte* element(void* array, std::int64_t index, DType dtype) {
  return static_cast<std::byte*>(array) + index * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace gdn::cpu
