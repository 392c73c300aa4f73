// A launch that starts as the kernel before it drains (programmatic dependent launch): its blocks
// come as soon as those of the kernel before have called launch_dependents or have left, and call
// wait_for_prerequisites before they read what that kernel writes (hopper/barrier.cuh).
#pragma once

#include <cuda_runtime.h>

#include "cuda/allow_shared_memory.h"
#include "cuda/check.h"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::hopper {

/// `blocks` blocks of `threads` threads with so much dynamic shared memory, allowed here. Throws
/// Error(device_failure).
template <typename... Parameters, typename... Arguments>
void launch_overlapping(void (*kernel)(Parameters...), unsigned int blocks, unsigned int threads,
                        std::size_t shared_bytes, cudaStream_t stream,
                        const Arguments&... arguments) {
  allow_shared_memory(kernel, shared_bytes);
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  GDN_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

}  // namespace gdn::GDN_CUDA_TARGET::hopper
