// The launches of cuda/chunkwise for one token dtype and chunk size: declared here, instantiated
// one pair per translation unit (chunkwise_*.cu), so that they compile side by side.
#pragma once

#include <cuda_runtime.h>

#include "cuda/gated_delta/chunk/chunkwise_workspace.cuh"
#include "cuda/gated_delta/chunk/step_rows.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

struct ChunkwiseLaunch {
  GatedDeltaParams params;  ///< with several steps per token, of rows (params_of_step_rows)
  ChunkwiseWorkspace workspace;
  std::int64_t token_capacity = 0;  ///< T
  GatedDeltaParams tokens;          ///< as given; like `rows` only with several steps per token
  StepRows rows;
  int state_warps = 4;   ///< 16 value dimensions each, in a block of the state pass
  int state_stages = 2;  ///< chunks it holds in shared memory
};

/// Dynamic shared memory of the largest kernel, in bytes, with what the state pass is given.
template <typename Element, int C>
int chunkwise_shared_bytes(const ChunkwiseLaunch& launch);

/// Raises the kernels' shared-memory limits; once, before the first enqueue.
template <typename Element, int C>
void configure_chunkwise(const ChunkwiseLaunch& launch);

template <typename Element, int C>
void enqueue_chunkwise(const ChunkwiseLaunch& launch, cudaStream_t stream);

}  // namespace gdn::GDN_CUDA_TARGET
