// The launch of cuda/fused for one token dtype and chunk size: declared here, instantiated in a
// translation unit for each dtype (fused_*.cu) and one for the kernels that store states inside the
// call (fused_checkpoints.cu), so that they compile side by side.
#pragma once

#include <cuda_runtime.h>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// How a launch shares out the work; nothing of it changes a bit of the results.
struct FusedSplit {
  int value_warps = 8;      ///< of a block: 16 value dimensions each
  int preparing_warps = 4;  ///< of a block: 4, or 8 where the value warps leave registers for them
  int key_stages = 3;       ///< chunks of K and Q in shared memory: 3, or 2 where 3 do not fit
};

constexpr int kFewestPreparingWarps = 4;

/// The chunk that a problem gets which asks for none, and the only one that is compiled with checkpoints.
constexpr int kDefaultFusedChunk = 32;

/// Most value warps of a block: fewer where their state and tiles take more registers.
template <typename Element, int C>
constexpr int max_value_warps(int key_head_dim) {
  return key_head_dim > 128 || (sizeof(Element) == 4 && C > 16) ? 4 : 8;
}

template <typename Element, int C, bool kCheckpoints>
int fused_shared_bytes(int key_head_dim, const FusedSplit& split);

/// Raises the kernel's shared-memory limit; once, before the first enqueue.
template <typename Element, int C, bool kCheckpoints>
void configure_fused(int key_head_dim, const FusedSplit& split);

template <typename Element, int C, bool kCheckpoints>
void enqueue_fused(const GatedDeltaParams& params, const FusedSplit& split, cudaStream_t stream);

}  // namespace gdn::GDN_CUDA_TARGET
