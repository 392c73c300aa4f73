// Barriers for warps of different roles, which pass them from different places in the code.
#pragma once

namespace gdn::cuda {

/// Of the whole block.
__device__ __forceinline__ void block_barrier() { asm volatile("bar.sync 0;" ::: "memory"); }

/// Of `num_threads` threads of whole warps; `name` is 1 .. 15.
template <int name>
__device__ __forceinline__ void named_barrier(int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(name), "r"(num_threads) : "memory");
}

}  // namespace gdn::cuda
