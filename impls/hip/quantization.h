// Integers with scales (interface/channel_quantization.h) by the kernels quantize_rows and quantize_columns
// (support.hip).
#pragma once

#include "hip/kernel_launcher.h"
#include "interface/channel_quantization.h"

namespace gdn::hip {

/// Enqueues the quantization, of arrays on the device.
void launch_quantization(KernelLauncher& launcher, const ChannelQuantization& quantization);

}  // namespace gdn::hip
