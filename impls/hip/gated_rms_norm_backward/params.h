// The argument block of the kernels of the gated norm's gradients, shared by host and device code.
#pragma once

#include <cstdint>

#include "hip/gated_rms_norm/params.h"

namespace gdn::hip {

/// Packets of a lane whose sums for d_weight stay in registers: rows of 256 elements.
constexpr int kNormHeldPackets = 2;
constexpr int kNormSumColumns = 32;  ///< of a workgroup that adds up d_weight, 8 threads each

struct NormGradientParams {
  NormParams norm;                ///< the forward call; y is null
  const void* d_y;                ///< [T, Hv, Dv]
  void* d_x;                      ///< [T, Hv, Dv]
  void* d_z;                      ///< likewise
  float* d_weight;                ///< [Dv]
  float* parts;                   ///< [blocks, rows of a block at a time, Dv]: sums of d_weight
  std::int64_t d_y_token_stride;  ///< elements
};

}  // namespace gdn::hip
