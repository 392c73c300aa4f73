// Stands in for cuda/launch_kernel.cuh: the kernel runs on the CPU, before the call returns
// (or whenever the graph is replayed that is being captured).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace gdn::cuda_emulated {

template <typename T>
using LargeParameter = const T&;

template <typename... Parameters, typename... Arguments>
void launch_kernel(void (*kernel)(Parameters...), unsigned int blocks, unsigned int threads,
                   std::size_t shared_bytes, cudaStream_t, const Arguments&... arguments) {
  cuda_grid::require_shared_memory(reinterpret_cast<const void*>(kernel), shared_bytes);
  cuda_grid::enqueue_grid(blocks, threads, shared_bytes,
                          [=] { kernel(static_cast<Parameters>(arguments)...); });
}

}  // namespace gdn::cuda_emulated
