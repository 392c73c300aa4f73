// The dynamic shared memory a kernel may be launched with, beyond the 48 KiB every kernel may.
#pragma once

#include <cstddef>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Lets a kernel be launched with `bytes` on the current device, and with whatever it was allowed
/// before: the driver keeps one figure per kernel, and plans of one kernel that need different
/// amounts live side by side, on several threads. Throws Error(device_failure).
void allow_shared_memory(const void* kernel, std::size_t bytes);

template <typename... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), std::size_t bytes) {
  allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes);
}

}  // namespace gdn::GDN_CUDA_TARGET
