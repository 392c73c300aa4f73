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
#include <type_traits>

#include "cuda/target.h"
#include "interface/dtype.h"
#include "interface/number_array.h"

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

/// The DType of a C++ type.
template <typename T>
inline constexpr DType kDType = std::is_same_v<T, __nv_bfloat16> ? DType::bfloat16
                                : std::is_same_v<T, __half>      ? DType::float16
                                                                 : DType::float32;

#ifdef __CUDACC__

/// The low (0) or high (1) 16-bit element of a word, and a word of two, the first in its low half.
template <typename T>
__device__ __forceinline__ float widen_half_word(std::uint32_t word, int half) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __uint_as_float(half == 0 ? word << 16 : word & 0xffff0000u);
  } else {
    static_assert(std::is_same_v<T, __half>);
    return to_float(__ushort_as_half(static_cast<unsigned short>(word >> (16 * half))));
  }
}
template <typename T>
__device__ __forceinline__ std::uint32_t round_to_pair(float low, float high) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else {
    static_assert(std::is_same_v<T, __half>);
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
}

/// An element as it lies, and what it is. Between the two, loads of several elements are under way at
/// once, where load_element() waits for each: the conversion is in one branch with the load.
__device__ __forceinline__ std::uint32_t load_bits(const void* array, std::int64_t index,
                                                   DType dtype) {
  if (dtype == DType::float32) return static_cast<const std::uint32_t*>(array)[index];
  return static_cast<const std::uint16_t*>(array)[index];
}
__device__ __forceinline__ float widen_bits(std::uint32_t bits, DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return __uint_as_float(bits << 16);
    case DType::float16:
      return to_float(__ushort_as_half(static_cast<unsigned short>(bits)));
    case DType::float32:
    case DType::int8:  // of no array that a kernel reads or writes so
      break;
  }
  return __uint_as_float(bits);
}

__device__ __forceinline__ std::uint32_t load_number_bits(const NumberArray& numbers,
                                                          std::int64_t token, int e) {
  return load_bits(numbers.data, numbers.index(token, e), numbers.type);
}

#endif  // __CUDACC__

/// Element `index` of an array of `dtype`.
__device__ __forceinline__ float load_element(const void* array, std::int64_t index, DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return to_float(static_cast<const __nv_bfloat16*>(array)[index]);
    case DType::float16:
      return to_float(static_cast<const __half*>(array)[index]);
    case DType::float32:
    case DType::int8:  // of no array that a kernel reads or writes so
      break;
  }
  return static_cast<const float*>(array)[index];
}

/// Value e of a token, or of what has no tokens, whatever type it is held in.
__device__ __forceinline__ float load_number(const NumberArray& numbers, std::int64_t token,
                                             int e) {
  return load_element(numbers.data, numbers.index(token, e), numbers.type);
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
    case DType::int8:
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
    case DType::int8:  // of no array that a kernel reads or writes so
      break;
  }
  return function(float{});
}

}  // namespace gdn::GDN_CUDA_TARGET
