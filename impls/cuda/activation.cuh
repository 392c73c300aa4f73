// The sigmoid and SiLU of kernels that read and write every element once: as exact as the type that
// the result is rounded to, and no more, since their arithmetic is what bounds such a kernel on a
// card that moves four terabytes a second.
#pragma once

#include "cuda/approximate.cuh"
#include "cuda/gates.cuh"

namespace gdn::GDN_CUDA_TARGET {

/// 1 / (1 + e^-x) for results in the type Rounded. In float32 that of gates.cuh, by an exact
/// exponential and a division: some 20 instructions. For 16 bits five: x log2(e) rounded to float32
/// makes e^-x wrong by 1.44 |x| 2^-24, below 2^-16 wherever the result is not zero. It is zero for
/// x below -87.3, where the sigmoid is no normal float32.
template <typename Rounded>
__device__ __forceinline__ float sigmoid_for(float x) {
  if constexpr (sizeof(Rounded) == sizeof(float)) {
    return sigmoid(x);
  } else {
    constexpr float kLog2E = 1.4426950408889634f;
    return reciprocal_approximately(1.0f + exp2_approximately(-kLog2E * x));
  }
}

/// x sigmoid(x).
template <typename Rounded>
__device__ __forceinline__ float silu_for(float x) {
  return x * sigmoid_for<Rounded>(x);
}

/// s = sigmoid(x) and s (1 - s), its slope. With e = exp(-|x|) one of s and 1 - s is 1 / (1 + e)
/// and the other e / (1 + e): neither loses its digits, and nothing overflows.
struct Sigmoid {
  float value, slope;
};
template <typename Rounded>
__device__ __forceinline__ Sigmoid sigmoid_and_slope_for(float x) {
  float e, large;
  if constexpr (sizeof(Rounded) == sizeof(float)) {
    e = expf(-fabsf(x));
    large = 1.0f / (1.0f + e);
  } else {
    constexpr float kLog2E = 1.4426950408889634f;
    e = exp2_approximately(-kLog2E * fabsf(x));
    large = reciprocal_approximately(1.0f + e);
  }
  const float small = e * large;
  return {x >= 0.0f ? large : small, large * small};
}

/// The slope of x sigmoid(x): s (1 + x (1 - s)).
__device__ __forceinline__ float silu_slope(float x, const Sigmoid& s) {
  return fmaf(x, s.slope, s.value);
}
/// In 16 bits 1 - s may lose digits: it is small beside 1 only where the slope is 1 within |x| 2^-24.
template <typename Rounded>
__device__ __forceinline__ float silu_slope_for(float x) {
  if constexpr (sizeof(Rounded) == sizeof(float)) {
    return silu_slope(x, sigmoid_and_slope_for<Rounded>(x));
  } else {
    const float s = sigmoid_for<Rounded>(x);
    return fmaf(s, fmaf(-x, s, x), s);
  }
}

}  // namespace gdn::GDN_CUDA_TARGET
