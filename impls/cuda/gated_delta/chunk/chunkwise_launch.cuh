// The launches of cuda/chunkwise for one token dtype and chunk size: declared here, instantiated
// one pair per translation unit (chunkwise_*.cu), so that they compile side by side.
#pragma once

#include <cuda_runtime.h>

#include "cuda/gated_delta/chunk/checkpoint_segments.cuh"
#include "cuda/gated_delta/chunk/chunkwise_workspace.cuh"
#include "cuda/gated_delta/chunk/step_rows.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

struct ChunkwiseLaunch {
  /// With several steps per token, of rows (params_of_step_rows); with checkpoints, of segments
  /// (params_of_segments).
  GatedDeltaParams params;
  ChunkwiseWorkspace workspace;
  std::int64_t token_capacity = 0;  ///< T
  GatedDeltaParams tokens;          ///< as given
  StepRows rows;                    ///< only with several steps per token
  CheckpointSegments segments;      ///< only with checkpoints
  int state_warps = 4;              ///< 16 value dimensions each, in a block of the state pass
  int state_stages = 2;             ///< chunks it holds in shared memory
};

/// Dynamic shared memory of the largest kernel, in bytes, with what the state pass is given.
template <typename Element, int C>
int chunkwise_shared_bytes(const ChunkwiseLaunch& launch);

/// Raises the kernels' shared-memory limits; once, before the first enqueue.
template <typename Element, int C>
void configure_chunkwise(const ChunkwiseLaunch& launch);

template <typename Element, int C>
void enqueue_chunkwise(const ChunkwiseLaunch& launch, cudaStream_t stream);

/// The chunk that a problem gets which asks for none, and the only one whose state pass is compiled with
/// checkpoints (chunkwise_checkpoints.cu).
constexpr int kChunkOfCheckpoints = 64;

template <typename Element>
void configure_checkpoint_states(const ChunkwiseLaunch& launch);

template <typename Element>
void enqueue_checkpoint_states(const ChunkwiseLaunch& launch, cudaStream_t stream);

}  // namespace gdn::GDN_CUDA_TARGET
