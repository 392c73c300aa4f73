// cuda/approximate.cuh, with the host's functions: results are rounded where the GPU's are not.
#pragma once

#include <cmath>

#include "cuda/ptx.cuh"

namespace gdn::cuda_emulated {

inline float exp2_approximately(float x) { return exp2_flushed(x); }

inline float inverse_root_approximately(float x) { return 1.0f / std::sqrt(x); }

inline float reciprocal_approximately(float x) {
  const float y = 1.0f / x;
  return y < 0x1p-126f && y > -0x1p-126f ? 0.0f : y;
}

}  // namespace gdn::cuda_emulated
