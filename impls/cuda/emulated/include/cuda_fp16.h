// Stands in for the CUDA Toolkit's header of this name: what the portable kernels use of float16.
#pragma once

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "cuda_runtime_api.h"
#include "interface/dtype.h"

struct __half {
  std::uint16_t bits;
};
struct alignas(4) __half2 {
  __half x, y;
};

inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
// By one instruction where the processor has it, but for NaN, of which it keeps other bits than gdn::encode.
inline float __half2float(__half x) {
#ifdef __F16C__
  if ((x.bits & 0x7fffu) <= 0x7c00u) return _cvtsh_ss(x.bits);
#endif
  float result;
  gdn::decode(gdn::DType::float16, &x, &result, 1);
  return result;
}
inline __half __float2half_rn(float x) {
#ifdef __F16C__
  if (x == x) return {_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)};
#endif
  __half result;
  gdn::encode(gdn::DType::float16, &x, &result, 1);
  return result;
}
inline __half2 __floats2half2_rn(float x, float y) {
  return {__float2half_rn(x), __float2half_rn(y)};
}
inline float2 __half22float2(__half2 pair) { return {__half2float(pair.x), __half2float(pair.y)}; }
