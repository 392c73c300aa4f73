// Fingerprints of device memory (interface/fingerprint.h), without bringing it to the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace gdn::cuda {

/// Enqueues the fingerprint of `bytes` bytes at `data` (a multiple of 8) into *sum, device memory.
/// Throws Error(device_failure).
void enqueue_fingerprint(const void* data, std::int64_t bytes, std::uint64_t* sum,
                         cudaStream_t stream);

}  // namespace gdn::cuda
