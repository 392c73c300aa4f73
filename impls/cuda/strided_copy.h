// Strided copies (interface/strided_copy.h) by kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <span>

#include "cuda/target.h"
#include "interface/strided_copy.h"

namespace gdn::GDN_CUDA_TARGET {

/// Enqueues the copies, of arrays on the device: up to kCopiesPerLaunch in a launch. Throws
/// Error(device_failure).
void enqueue_strided_copies(std::span<const StridedCopy> copies, cudaStream_t stream);

constexpr int kCopiesPerLaunch = 10;

}  // namespace gdn::GDN_CUDA_TARGET
