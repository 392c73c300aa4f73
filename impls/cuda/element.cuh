// Elements of token arrays and state pools on the device: float32 <-> bfloat16, float16, rounded to
// nearest even (overflow to infinity), and the choice of a C++ type from a DType.
//
// Inner loops take the element type as a template parameter; the ends of a kernel (state rows,
// outputs), touched once per call, switch on a run-time DType instead of multiplying
// instantiations.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/target.h"
#include "interface/dtype.h"

namespace gdn::GDN_CUDA_TARGET {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

/// Element `index` of an array of `dtype`.
__device__ __forceinline__ float load_element(const void* array, std::int64_t index, DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return to_float(static_cast<const __nv_bfloat16*>(array)[index]);
    case DType::float16:
      return to_float(static_cast<const __half*>(array)[index]);
    case DType::float32:
      break;
  }
  return static_cast<const float*>(array)[index];
}

__device__ __forceinline__ void store_element(void* array, std::int64_t index, DType dtype,
                                              float value) {
  switch (dtype) {
    case DType::bfloat16:
      static_cast<__nv_bfloat16*>(array)[index] = from_float<__nv_bfloat16>(value);
      return;
    case DType::float16:
      static_cast<__half*>(array)[index] = from_float<__half>(value);
      return;
    case DType::float32:
      static_cast<float*>(array)[index] = value;
      return;
  }
}

/// 16 bytes of elements, aligned: what one thread moves at a time.
template <typename T>
struct alignas(16) Vector16 {
  static constexpr int kCount = 16 / sizeof(T);
  T values[kCount];
};

/// Host: calls function(T{}) with the C++ type of `dtype`.
template <typename Function>
auto with_element_type(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::bfloat16:
      return function(__nv_bfloat16{});
    case DType::float16:
      return function(__half{});
    case DType::float32:
      break;
  }
  return function(float{});
}

}  // namespace gdn::GDN_CUDA_TARGET
