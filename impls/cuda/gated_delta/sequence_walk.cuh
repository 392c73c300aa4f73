// How a kernel goes through the tokens of a sequence: from checkpoint to checkpoint, or all in one go.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

/// CheckpointWalk of a call without checkpoints. The loop around the tokens' costs cuda/recurrent two percent,
/// though it is gone round once (16/32 4x8192, H200).
struct WholeSequence {
  std::int64_t end = 0;

  __device__ WholeSequence(const GatedDeltaParams&, int, std::int64_t length) : end(length) {}
  template <typename Store>
  __device__ void store(const GatedDeltaParams&, Store) const {}
  __device__ bool next(const GatedDeltaParams&) const { return false; }
};

template <bool kCheckpoints>
using SequenceWalk = std::conditional_t<kCheckpoints, CheckpointWalk, WholeSequence>;

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
