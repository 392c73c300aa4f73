// Checks of what a caller hands to plan(): Error(bad_input) naming the argument.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/target.h"
#include "interface/error.h"

namespace gdn::GDN_CUDA_TARGET {

inline void require_pointer(const void* pointer, std::int64_t alignment, const std::string& name) {
  if (pointer == nullptr) throw_bad_input(name + ": the device pointer is null");
  if (reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(alignment) != 0) {
    throw_bad_input(name + ": the device pointer is not aligned to " + std::to_string(alignment) +
                    " bytes");
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
