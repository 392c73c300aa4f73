// Integers with scales (interface/channel_quantization.h) by kernels.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/target.h"
#include "interface/channel_quantization.h"

namespace gdn::GDN_CUDA_TARGET {

/// Enqueues the quantization, of arrays on the device. Throws Error(device_failure).
void enqueue_channel_quantization(const ChannelQuantization& quantization, cudaStream_t stream);

}  // namespace gdn::GDN_CUDA_TARGET
