// What kernels need of a wave and of a workgroup's memory: the one place where gfx906 and the CUDA
// build of the same kernels (lanes_cuda.h, for large problems on an NVIDIA card) differ. Kernels
// exchange lanes through these names alone. Included by .hip files only.
//
//     kWave                       lanes of a wave: 64; in the CUDA build 64 or 32
//     shuffle, shuffle_up,        lanes of the wave by index; every lane takes part
//     shuffle_xor
//     dpp_moved<control, rows>    lanes moved inside the VALU; 0 where the control has no source
//     read_lane<lane>, uniform    one lane's value for all; a value that is equal in all lanes
//     compiler_fence              memory is read again after it
//     GDN_LDS(name, type)         the workgroup's tiles: one such declaration per kernel
//     counted_lane                the lane's number, counted: to the compiler another value than
//                                 threadIdx.x % kWave
//     Half, HalfPair, dot2        float16; a.x b.x + a.y b.y + c in float32
#pragma once

#if defined(__HIP__)

#include <hip/hip_runtime.h>

#include <cstdint>

namespace gdn::hip {

constexpr int kWave = 64;
using Half = _Float16;
using HalfPair = Half __attribute__((ext_vector_type(2)));
#define GDN_LDS(name, ...) __shared__ __VA_ARGS__ name

template <typename T>
__device__ __forceinline__ T shuffle(T x, int lane) {
  return __shfl(x, lane, kWave);
}
template <typename T>
__device__ __forceinline__ T shuffle_up(T x, int distance) {
  return __shfl_up(x, distance, kWave);
}
template <typename T>
__device__ __forceinline__ T shuffle_xor(T x, int mask) {
  return __shfl_xor(x, mask, kWave);
}

/// Lane l takes the lane that the DPP control names for it (Vega ISA, DPP_CTRL); 0 in lanes without
/// a source and in 16-lane rows that row_mask leaves out.
template <int control, int row_mask>
__device__ __forceinline__ float dpp_moved(float x) {
  return __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x),
                                                               control, row_mask, 0xf, true));
}
template <int lane>
__device__ __forceinline__ float read_lane(float x) {
  return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, x), lane));
}
/// Into a scalar register: everything derived from it stays scalar.
__device__ __forceinline__ int uniform(int x) { return __builtin_amdgcn_readfirstlane(x); }
/// The compiler knows nothing of where it comes from: of an offset in a loop no sums with lanes' own
/// offsets are computed ahead of the loop, which would take two vector registers each.
__device__ __forceinline__ std::int64_t uniform(std::int64_t x) {
  const auto low = static_cast<std::uint32_t>(uniform(static_cast<int>(x)));
  return static_cast<std::int64_t>(uniform(static_cast<int>(x >> 32))) << 32 | low;
}

__device__ __forceinline__ int counted_lane() {
  return static_cast<int>(__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)));
}

/// v_dot2_f32_f16: the products are exact.
__device__ __forceinline__ float dot2(HalfPair a, HalfPair b, float c) {
  return __builtin_amdgcn_fdot2(a, b, c, false);
}

__device__ __forceinline__ void compiler_fence() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

}  // namespace gdn::hip

#else
#include "hip/lanes_cuda.h"
#endif
