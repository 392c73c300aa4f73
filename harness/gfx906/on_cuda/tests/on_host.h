// Builds the CUDA side of the gfx906 kernels for the host: force-included, over the headers and the
// grid of fibres in cuda/emulated.
#pragma once

#include <cuda_runtime.h>

// A grid of three dimensions on one of fibres: set before it runs.
inline uint3 gdn_grid_extent{1, 1, 1};
inline uint3 gdn_block_index() {
  const unsigned int x = gdn_grid_extent.x, y = gdn_grid_extent.y, index = blockIdx.x;
  return {index % x, index / x % y, index / x / y};
}
#define blockIdx (gdn_block_index())

inline unsigned int __umulhi(unsigned int a, unsigned int b) {
  return static_cast<unsigned int>(std::uint64_t{a} * b >> 32);
}
