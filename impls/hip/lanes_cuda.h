// The names of lanes_device.h under the CUDA compiler: the gfx906 kernels on an NVIDIA card, to
// verify them on problems too large for the emulator. GDN_WAVE is the width of a wave:
//
//     32   a warp, with its own shuffles
//     64   two neighbouring warps, which exchange through shared memory: write, barrier of the 64
//          threads, read, barrier. The kernels as they are instantiated for gfx906.
//
// As on gfx906, all lanes of a wave reach an exchange together. Nothing else may be assumed: the
// two warps of a wave do not run in lockstep, so kernels must not pass data through LDS within a
// wave without __syncthreads.
#pragma once

#include <cstdint>

#include "hip/dpp_source.h"
#if !defined(GDN_ON_HOST)
#include <cuda_fp16.h>
#endif

#if GDN_WAVE != 64 && GDN_WAVE != 32
#error "GDN_WAVE: expected 64 or 32"
#endif

namespace gdn::hip {

constexpr int kWave = GDN_WAVE;
constexpr int kMostThreads = 256;  ///< of a workgroup
constexpr unsigned kAllLanes = 0xffffffffu;

#if defined(GDN_ON_HOST)  // tests: threads are fibres (on_cuda/tests/on_host.h)
using Half = _Float16;
#define GDN_LDS(name, ...) \
  __VA_ARGS__& name = *reinterpret_cast<__VA_ARGS__*>(cuda_grid::dynamic_shared_memory())

inline void named_barrier(int id, int threads) { cuda_grid::barrier(id, threads); }
#else
using Half = __half;
// More than 48 KB of shared memory must be dynamic; the launcher passes the size of the code
// object's metadata.
#define GDN_LDS(name, ...)                                 \
  extern __shared__ __align__(16) unsigned char gdn_lds[]; \
  __VA_ARGS__& name = *reinterpret_cast<__VA_ARGS__*>(gdn_lds)

/// Of `threads` threads; 0 is __syncthreads' own.
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
#endif

__device__ __forceinline__ void compiler_fence() { asm volatile("" ::: "memory"); }

struct alignas(4) HalfPair {
  Half x, y;
};
/// One rounding of the exact sum, as the emulator has it.
__device__ __forceinline__ float dot2(HalfPair a, HalfPair b, float c) {
  const auto product = [](Half x, Half y) {
    return static_cast<double>(static_cast<float>(x)) * static_cast<double>(static_cast<float>(y));
  };
  return static_cast<float>(product(a.x, b.x) + product(a.y, b.y) + static_cast<double>(c));
}

__device__ __forceinline__ int lane_of_thread() { return static_cast<int>(threadIdx.x) % kWave; }

template <typename T>
__device__ __forceinline__ T shuffle(T x, int lane) {
  if constexpr (kWave == 32) {
    return __shfl_sync(kAllLanes, x, lane);
  } else {
    __shared__ T exchange[kMostThreads];
    const int thread = static_cast<int>(threadIdx.x), wave = thread / kWave;
    exchange[thread] = x;
    named_barrier(1 + wave, kWave);
    const T taken = exchange[wave * kWave + lane % kWave];
    named_barrier(1 + wave, kWave);  // read by all before the next exchange writes
    return taken;
  }
}
/// Lanes below `distance` keep their own.
template <typename T>
__device__ __forceinline__ T shuffle_up(T x, int distance) {
  const int lane = lane_of_thread();
  return shuffle(x, lane < distance ? lane : lane - distance);
}
template <typename T>
__device__ __forceinline__ T shuffle_xor(T x, int mask) {
  return shuffle(x, lane_of_thread() ^ mask);
}

template <int control, int row_mask>
__device__ __forceinline__ float dpp_moved(float x) {
  static_assert(dpp_source(control, 0) != -2, "a DPP control that dpp_source.h does not cover");
  const int lane = lane_of_thread(), source = dpp_source(control, lane);
  const int from = source < 0 ? lane : source;
  // Most moves stay within a warp, whose own shuffle then does.
  float moved = 0.0f;
  if constexpr (dpp_within_halves(control, row_mask)) {
    moved = __shfl_sync(kAllLanes, x, from % 32);
  } else {
    moved = shuffle(x, from);
  }
  return (row_mask >> (lane / 16) & 1) != 0 && source >= 0 ? moved : 0.0f;
}

template <int lane>
__device__ __forceinline__ float read_lane(float x) {
  return shuffle(x, lane);
}
__device__ __forceinline__ int uniform(int x) { return x; }
__device__ __forceinline__ std::int64_t uniform(std::int64_t x) { return x; }
__device__ __forceinline__ int counted_lane() { return lane_of_thread(); }

}  // namespace gdn::hip
