// Checks of what a caller hands to plan(): Error(bad_input) naming the argument.
#pragma once

#include <cstdint>
#include <string>

#include "hip/element.h"
#include "interface/dtype.h"
#include "interface/error.h"

namespace gdn::hip {

inline void require_pointer(const void* pointer, std::size_t alignment, const std::string& name) {
  if (pointer == nullptr) throw_bad_input(name + ": the device pointer is null");
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0) {
    throw_bad_input(name + ": the device pointer is not aligned to " + std::to_string(alignment) +
                    " bytes");
  }
}

inline Element element_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return Element::float32;
    case DType::bfloat16:
      return Element::bfloat16;
    case DType::float16:
      return Element::float16;
  }
  throw_bad_input("dtype: unknown");
}

}  // namespace gdn::hip
