// Stands in for the CUDA Toolkit's header of this name: what the portable kernels use of bfloat16.
#pragma once

#include "cuda_runtime_api.h"
#include "interface/dtype.h"

struct __nv_bfloat16 {
  std::uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

inline float __bfloat162float(__nv_bfloat16 x) {
  return __uint_as_float(static_cast<std::uint32_t>(x.bits) << 16);
}
/// As gdn::encode does it, without a call.
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  const std::uint32_t bits = __float_as_uint(x), high = bits >> 16;
  if (x != x) return {static_cast<std::uint16_t>(high | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (high & 1u)) >> 16)};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
inline float2 __bfloat1622float2(__nv_bfloat162 pair) {
  return {__bfloat162float(pair.x), __bfloat162float(pair.y)};
}
