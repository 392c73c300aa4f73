// How many blocks a launch may have. Apart from launch_plan.h, so that files that hold kernels alone
// need not read the interface: nvcc reads every header twice.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/target.h"
#include "interface/error.h"

namespace gdn::GDN_CUDA_TARGET {

/// Blocks of a one-dimensional grid. Throws Error(unsupported) beyond 2^31 - 1, the hardware's
/// limit.
inline unsigned int grid_blocks(std::int64_t blocks, const std::string& name) {
  if (blocks > 2147483647) {
    throw Error(ErrorKind::unsupported,
                name + ": needs " + std::to_string(blocks) + " blocks, more than a grid holds");
  }
  return static_cast<unsigned int>(blocks);
}

}  // namespace gdn::GDN_CUDA_TARGET
