// The launch of a call by a kernel of a form.
#pragma once

#include <string>

#include "cuda/gated_delta_ring/steps.h"
#include "cuda/grid_blocks.h"
#include "cuda/launch_kernel.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// `kernel`: with `block_values` and `threads`.
template <typename Kernel>
LaunchPlan::Enqueue step_of_ring(const Kernel& kernel, const char* name, const Problem& problem,
                                 const GatedDeltaParams& params, const RingParams& ring) {
  const RingOptions options = {tile_grid(problem, kernel.block_values), kernel.block_values, ring};
  const unsigned int blocks = grid_blocks(tile_blocks(problem, kernel.block_values), name);
  return [=](cudaStream_t stream) {
    launch_kernel(kernel.kernel, blocks, static_cast<unsigned int>(kernel.threads), 0, stream,
                  params, options);
  };
}

}  // namespace gdn::GDN_CUDA_TARGET
