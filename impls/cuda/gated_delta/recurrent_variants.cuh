// The variants of cuda/recurrent (Problem::update, steps, decay); the gated delta rule itself has a
// kernel of its own in recurrent.cu.
#pragma once

#include <cuda_runtime.h>

#include "cuda/gated_delta/params.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// Enqueues the recurrence that params names; Dk is 64, 96 or 128. `blocks`: one per sequence,
/// value head and 32 value dimensions.
void enqueue_recurrent_variant(DType token_dtype, const GatedDeltaParams& params,
                               unsigned int blocks, cudaStream_t stream);

}  // namespace gdn::GDN_CUDA_TARGET
