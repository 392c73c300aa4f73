// The verify kernels of cuda/chunkwise as their launcher takes them: an instance for each type of state,
// compiled side by side (chunkwise_f32.cu and others, from chunkwise_kernel.cuh).
#pragma once

#include "cuda/gated_delta/params.cuh"
#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/gated_delta/tile/step_records.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// What the kernel takes beside the problem.
struct ChunkwiseOptions {
  TileGrid grid;
  int block_values;
  StepRecords kept;
};

struct ChunkwiseKernel {
  void (*kernel)(GatedDeltaParams, ChunkwiseOptions) = nullptr;
  int chunk = 0;  ///< tokens
  int block_values = 0;
  int threads = 0;
};

ChunkwiseKernel chunkwise_kernel_f32(const Problem& problem);
ChunkwiseKernel chunkwise_kernel_bf16(const Problem& problem);
ChunkwiseKernel chunkwise_kernel_f16(const Problem& problem);

}  // namespace gdn::GDN_CUDA_TARGET
