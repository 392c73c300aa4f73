// cp.async: 16-byte copies from global to shared memory that the thread does not wait for.
#pragma once

#include <cstdint>

namespace gdn::cuda {

__device__ __forceinline__ void copy_async_16(void* shared, const void* global) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}

/// Closes the group of copies issued since the last call (it may be empty).
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most `kPending` of this thread's newest groups are still under way. What other
/// threads copied is visible only after a barrier with them.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace gdn::cuda
