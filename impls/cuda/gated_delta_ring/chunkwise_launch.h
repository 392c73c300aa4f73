// The kernels of cuda/chunkwise of gated_delta_ring as their launcher takes them: an instance for each type of state,
// compiled side by side (chunkwise_f32.cu, chunkwise_bf16.cu, from chunkwise_kernel.cuh).
#pragma once

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta_ring/params.cuh"
#include "cuda/target.h"
#include "interface/problem.h"

namespace gdn::GDN_CUDA_TARGET {

struct ChunkwiseRingKernel {
  void (*kernel)(GatedDeltaParams, RingOptions) = nullptr;
  int chunk = 0;  ///< tokens
  int block_values = 0;
  int threads = 0;
};

ChunkwiseRingKernel chunkwise_ring_kernel_f32(const Problem& problem);
ChunkwiseRingKernel chunkwise_ring_kernel_bf16(const Problem& problem);

}  // namespace gdn::GDN_CUDA_TARGET
