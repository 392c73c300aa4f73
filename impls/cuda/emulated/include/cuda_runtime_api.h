// Stands in for the CUDA Toolkit's header when kernels are compiled for the CPU: the part of it
// that the portable kernels use. Threads run as fibres (grid.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda/emulated/grid.h"

#define __CUDACC__ 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)

struct uint3 {
  unsigned int x, y, z;
};
// Set for the fibre that runs.
inline thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned int x, y;
};
struct alignas(16) uint4 {
  unsigned int x, y, z, w;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) {
  return {x, y, z, w};
}

template <typename T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
inline std::uint32_t __float_as_uint(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __uint_as_float(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

template <typename T>
T __ldg(const T* at) {
  return *at;
}
inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
/// Fibres of other blocks run beside this one.
inline unsigned int atomicInc(unsigned int* at, unsigned int last) {
  unsigned int old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(at, &old, old >= last ? 0 : old + 1, false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
  return old;
}
inline int atomicAdd(int* at, int value) { return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// ---- a block's threads among each other

inline void __syncthreads() { gdn::cuda_grid::barrier(0, 0); }
inline void __syncwarp(unsigned int = ~0u) {
  gdn::cuda_grid::meet("__syncwarp", nullptr, 0, nullptr);
}

namespace gdn::cuda_grid {
/// The value of lane `source` of this lane's group of `width` lanes.
template <typename T>
T value_of_lane(const char* operation, T value, int source) {
  static_assert(sizeof(T) <= kSlotBytes);
  const WarpSlots& slots = meet(operation, &value, sizeof value, nullptr);
  T result;
  std::memcpy(&result, slots.given[source], sizeof result);
  return result;
}
}  // namespace gdn::cuda_grid

template <typename T>
T __shfl_sync(unsigned int, T value, int source, int width = 32) {
  const int lane = gdn::cuda_grid::lane_index();
  return gdn::cuda_grid::value_of_lane("__shfl_sync", value, lane / width * width + source % width);
}
template <typename T>
T __shfl_xor_sync(unsigned int, T value, int mask, int width = 32) {
  const int lane = gdn::cuda_grid::lane_index();
  const int other = lane ^ mask;
  return gdn::cuda_grid::value_of_lane("__shfl_xor_sync", value,
                                       other / width == lane / width ? other : lane);
}
template <typename T>
T __shfl_up_sync(unsigned int, T value, int distance, int width = 32) {
  const int lane = gdn::cuda_grid::lane_index();
  const int other = lane - distance;
  return gdn::cuda_grid::value_of_lane("__shfl_up_sync", value,
                                       other >= lane / width * width ? other : lane);
}

inline unsigned int __ballot_sync(unsigned int, bool vote) {
  const gdn::cuda_grid::WarpSlots& slots =
      gdn::cuda_grid::meet("__ballot_sync", &vote, sizeof vote, nullptr);
  unsigned int votes = 0;
  for (int lane = 0; lane < 32; ++lane) votes |= (slots.given[lane][0] != 0 ? 1u : 0u) << lane;
  return votes;
}
inline unsigned int __reduce_max_sync(unsigned int, unsigned int value) {
  const gdn::cuda_grid::WarpSlots& slots =
      gdn::cuda_grid::meet("__reduce_max_sync", &value, sizeof value, nullptr);
  unsigned int largest = 0;
  for (int lane = 0; lane < 32; ++lane) {
    std::memcpy(&value, slots.given[lane], sizeof value);
    largest = max(largest, value);
  }
  return largest;
}

// ---- host side: launches run at once, so nothing can fail later

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0 };
enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributePreferredSharedMemoryCarveout
};
enum cudaDeviceAttr { cudaDevAttrMaxSharedMemoryPerBlockOptin };
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "no error"; }
inline const char* cudaGetErrorName(cudaError_t) { return "cudaSuccess"; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    gdn::cuda_grid::set_most_shared_memory(reinterpret_cast<const void*>(kernel),
                                           static_cast<std::size_t>(value));
  }
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 232448;  // of a block on sm_90
  return cudaSuccess;
}

struct dim3 {
  unsigned int x = 1, y = 1, z = 1;
  dim3(unsigned int count = 1) : x(count) {}  // NOLINT: as CUDA's
};
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned int numAttrs;
};
/// Kernels of a stream run one after the other: none starts before its predecessor has ended.
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const Arguments&... arguments) {
  gdn::cuda_grid::require_shared_memory(reinterpret_cast<const void*>(kernel),
                                        config->dynamicSmemBytes);
  gdn::cuda_grid::enqueue_grid(config->gridDim.x, config->blockDim.x, config->dynamicSmemBytes,
                               [=] { kernel(static_cast<Parameters>(arguments)...); });
  return cudaSuccess;
}
