// Checks and element addresses of the typed pointers in Arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "interface/dtype.h"
#include "interface/error.h"

namespace gdn::cpu {

/// Throws Error(bad_input) naming the argument if it is null or misaligned to its element.
inline void require_pointer(const char* name, const void* pointer, std::size_t element_size) {
  if (pointer == nullptr) throw_bad_input(std::string(name) + ": null pointer");
  if (reinterpret_cast<std::uintptr_t>(pointer) % element_size != 0) {
    throw_bad_input(std::string(name) + ": pointer is not aligned to its element of " +
                    std::to_string(element_size) + " bytes");
  }
}

/// Address of element `index` of an array of `dtype`.
inline const std::byte* element(const void* array, std::int64_t index, DType dtype) {
  return static_cast<const std::byte*>(array) + index * static_cast<std::int64_t>(size_of(dtype));
}
inline std::byte* element(void* array, std::int64_t index, DType dtype) {
  return static_cast<std::byte*>(array) + index * static_cast<std::int64_t>(size_of(dtype));
}

}  // namespace gdn::cpu
