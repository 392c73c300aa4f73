// Special functions by single instructions, and what 16-bit results are made of with them: exact to a
// few units in the last place of float32 where nothing cancels. Values below 2^-126 are zero. A
// primitive: the emulator has a header of its own in its place.
#pragma once

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET {

/// 2^x, wrong by two units in the last place.
__device__ __forceinline__ float exp2_approximately(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / sqrt(x), wrong by two units in the last place.
__device__ __forceinline__ float inverse_root_approximately(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / x, wrong by one unit in the last place; 0 for infinity.
__device__ __forceinline__ float reciprocal_approximately(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace gdn::GDN_CUDA_TARGET
