// What the kernels made of 16 x 16 fragments (cuda/chunkwise and cuda/fused) can load, hold and
// store.
#pragma once

#include <string>

#include "cuda/target.h"
#include "interface/implementation.h"

namespace gdn::GDN_CUDA_TARGET {

/// Head dimensions and output dtype; chunk size and shared memory are the implementation's own.
inline Support fragment_support(const Problem& problem) {
  const auto vector = static_cast<std::int64_t>(16 / size_of(problem.token_dtype));
  if (problem.key_head_dim % vector != 0 || problem.value_head_dim % vector != 0) {
    return Support::no("dim=" + std::to_string(problem.key_head_dim) + "x" +
                       std::to_string(problem.value_head_dim) + " is not a multiple of " +
                       std::to_string(vector) + ": rows are loaded 16 bytes at a time");
  }
  if (problem.key_head_dim > 256) {
    return Support::no(
        "Dk=" + std::to_string(problem.key_head_dim) +
        " is more than 256: 16 columns of the state do not fit in a warp's registers");
  }
  const DType output = problem.effective_output_dtype();
  if (output != problem.token_dtype && output != DType::float32) {
    return Support::no("output in " + long_name(output) + " from tokens in " +
                       long_name(problem.token_dtype));
  }
  return Support::yes();
}

/// The reason where no split of a block's work fits its shared memory.
inline Support no_room(const Problem& problem, std::int64_t chunk, int needed_bytes,
                       int max_shared_bytes) {
  return Support::no(
      "chunk=" + std::to_string(chunk) + " with Dk=" + std::to_string(problem.key_head_dim) +
      " and " + long_name(problem.token_dtype) + " tokens needs " + std::to_string(needed_bytes) +
      " bytes of shared memory a block; the device has " + std::to_string(max_shared_bytes));
}

}  // namespace gdn::GDN_CUDA_TARGET
