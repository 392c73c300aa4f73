// The registered forms of the Hopper kernel, and what their sources share on the host.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cuda/gated_delta/fused_sm90_common.cuh"
#include "interface/implementation.h"

namespace gdn::cuda {

enum class FusedSm90Kind {
  planned,     ///< cuda/fused_sm90: the planner chooses
  invariant,   ///< sequences are never split: the same bits alone and in any batch
  one_launch,  ///< always the one-launch kernel
};
const Implementation& fused_sm90_implementation(FusedSm90Kind kind);

namespace fused_sm90 {

/// Most sequences that the one-launch kernel takes: a block orders them in shared memory.
inline constexpr int kMostOrderedSequences = 256;

struct OneLaunch {
  KernelArguments arguments;
  CUtensorMap query, key, value, output;
  unsigned int blocks = 0;
};
void enqueue_one_launch(const OneLaunch& launch, DType token_dtype, cudaStream_t stream);

}  // namespace fused_sm90
}  // namespace gdn::cuda
