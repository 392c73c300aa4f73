// What the device reaches on three plain kernels: the figures that results are set against.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/stream_timer.h"
#include "interface/device.h"

namespace gdn::cuda {

/// Medians of several runs on the current device:
///   copy_tb_per_s    16-byte loads and stores over buffers of many times the L2; read + written
///   matrix_tflops    bf16 products of pseudo-random operands, float32 accumulation: wgmma
///                    m64n256k16 from shared memory in sm_90a code, mma.sync m16n8k16 from
///                    registers elsewhere. The rate of the matrix units alone: no operand crosses
///                    device memory
///   float32_tflops   independent chains of fused multiply-adds, counted as two operations each
/// A ceiling that cannot be measured here (too little free memory to copy) is 0.
Device::Ceilings measure_ceilings(cudaStream_t stream, const DeviceInfo& info, StreamTimer& timer);

}  // namespace gdn::cuda
