// Launching a kernel. The file of the same name under emulated/ runs it on the CPU instead.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "cuda/check.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// The type of a kernel's parameter that is large: on the CPU, where each thread would have its own on its stack,
/// they share one.
template <typename T>
using LargeParameter = const T;

/// `blocks` blocks of `threads` threads, enqueued on the stream. Throws Error(device_failure).
template <typename... Parameters, typename... Arguments>
void launch_kernel(void (*kernel)(Parameters...), unsigned int blocks, unsigned int threads,
                   std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
  kernel<<<blocks, threads, shared_bytes, stream>>>(arguments...);
  GDN_CUDA_CHECK(cudaGetLastError());
}

}  // namespace gdn::GDN_CUDA_TARGET
