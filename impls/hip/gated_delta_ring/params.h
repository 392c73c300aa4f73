// The argument block of the gated_delta_ring kernels, shared by host and device code. Plain C++:
// fixed widths, the same layout for both compilers.
#pragma once

#include <cstdint>

#include "hip/gated_delta/params.h"

namespace gdn::hip {

/// `delta.packets` is of the rings' keys and updates too. Strides in elements of each array.
struct RingParams {
  GatedDeltaParams delta;
  IndexArray first;   ///< [N]
  IndexArray length;  ///< [N]
  IndexArray fold;    ///< [N]
  void* key;          ///< rows of [places, Hk, Dk] in the token dtype
  void* update;       ///< rows of [places, Hv, Dv], bfloat16 or float32, part of the kernel's name
  float* decay;       ///< rows of [places, Hv]
  std::int64_t key_row_stride;
  std::int64_t update_row_stride;
  std::int64_t decay_row_stride;
  std::int32_t places;
  std::int32_t num_key_heads;
  std::int32_t value_heads_per_key_head;
  std::int32_t unused;
};
static_assert(sizeof(RingParams) == sizeof(GatedDeltaParams) + 3 * 16 + 6 * 8 + 4 * 4);

}  // namespace gdn::hip
