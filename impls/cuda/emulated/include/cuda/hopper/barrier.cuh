// Stands in for cuda/hopper/barrier.cuh.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/emulated/grid.h"

namespace gdn::cuda_emulated::hopper {

inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(static_cast<const unsigned char*>(pointer) -
                                    cuda_grid::dynamic_shared_memory());
}

inline void mbarrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  cuda_grid::mbarrier_init(barrier, arrivals);
}
inline void fence_mbarrier_init() {}
inline void mbarrier_arrive(std::uint32_t barrier) { cuda_grid::mbarrier_arrive(barrier, 0); }
inline void mbarrier_arrive_expect(std::uint32_t barrier, std::uint32_t bytes) {
  cuda_grid::mbarrier_arrive(barrier, bytes);
}
inline void mbarrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  cuda_grid::mbarrier_wait(barrier, parity);
}

inline void named_barrier_sync(int id, int threads) { cuda_grid::barrier(id, threads); }

// Flags begin at 0: who sees that waits for another value, and gives way before it looks once more.
inline int load_acquire(const int* flag) {
  const std::atomic_ref<int> value(*const_cast<int*>(flag));
  if (value.load(std::memory_order_acquire) == 0) cuda_grid::look_again();
  return value.load(std::memory_order_acquire);
}
inline void store_release(int* flag, int value) {
  std::atomic_ref<int>(*flag).store(value, std::memory_order_release);
}
inline int load_relaxed(const int* flag) { return load_acquire(flag); }

// Every write is visible at once, registers are not counted, and kernels of a stream do not
// overlap.
inline void fence_async_proxy() {}
template <int Registers>
void registers_increase() {}
template <int Registers>
void registers_decrease() {}
inline void launch_dependents() {}
inline void wait_for_prerequisites() {}

}  // namespace gdn::cuda_emulated::hopper
