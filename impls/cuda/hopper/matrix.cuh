// Shared-memory matrix moves, 16-bit packing and warp-level matrix products. Device code, sm_90a.
//
// Lane layout of an 8x8 matrix of 16-bit elements (ldmatrix, stmatrix and mma fragments): lane l
// holds row l/4, columns 2(l%4) and 2(l%4)+1 in one register, lower column in the lower half; with
// .trans, the same of the transposed matrix. In the x4 forms lane l passes the address of row l%8
// of matrix l/8.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::hopper {

/// Byte offset in a 128-byte swizzled tile: rows of 128 bytes, 16-byte units XORed with the row.
__device__ __forceinline__ uint32_t swizzle_128(uint32_t row, uint32_t byte) {
  return row * 128 + (byte ^ ((row & 7) << 4));
}

__device__ __forceinline__ void load_matrix_x4(uint32_t address, uint32_t& r0, uint32_t& r1,
                                               uint32_t& r2, uint32_t& r3) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrix_x4_trans(uint32_t address, uint32_t& r0, uint32_t& r1,
                                                     uint32_t& r2, uint32_t& r3) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ uint32_t load_matrix(uint32_t address) {
  uint32_t r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(r)
               : "r"(address)
               : "memory");
  return r;
}
__device__ __forceinline__ uint32_t load_matrix_trans(uint32_t address) {
  uint32_t r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(r)
               : "r"(address)
               : "memory");
  return r;
}
__device__ __forceinline__ void store_matrix_x4(uint32_t address, uint32_t r0, uint32_t r1,
                                                uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address),
               "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}
__device__ __forceinline__ void store_matrix_x4_trans(uint32_t address, uint32_t r0, uint32_t r1,
                                                      uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address),
               "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}
__device__ __forceinline__ void store_matrix_trans(uint32_t address, uint32_t r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(address), "r"(r)
               : "memory");
}

// ---- packing: two floats to one register of 16-bit elements, `low` in the lower half

template <typename Element>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  uint32_t r;
  if constexpr (std::is_same_v<Element, __half>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  } else {
    static_assert(std::is_same_v<Element, __nv_bfloat16>);
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  }
  return r;
}
template <typename Element>
__device__ __forceinline__ float2 unpack(uint32_t pair) {
  if constexpr (std::is_same_v<Element, __half>) {
    float2 f;
    asm("{\n.reg .f16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}"
        : "=f"(f.x), "=f"(f.y)
        : "r"(pair));
    return f;
  } else {
    static_assert(std::is_same_v<Element, __nv_bfloat16>);
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }
}

/// high + low = the two floats to 16 bits, both parts bfloat16.
__device__ __forceinline__ void split_bfloat16(float x, float y, uint32_t& high, uint32_t& low) {
  high = pack<__nv_bfloat16>(x, y);
  const float2 h = unpack<__nv_bfloat16>(high);
  low = pack<__nv_bfloat16>(x - h.x, y - h.y);
}

/// 2^x; results below 2^-126 are exactly zero.
__device__ __forceinline__ float exp2_flush(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// ---- ordinary shared-memory accesses by 32-bit address
// Not asm volatile: the compiler may batch them between barriers, which hides their latency.

template <typename T>
__device__ __forceinline__ T load_shared(uint32_t address) {
  return *static_cast<const T*>(__cvta_shared_to_generic(static_cast<size_t>(address)));
}
template <typename T>
__device__ __forceinline__ void store_shared(uint32_t address, T value) {
  *static_cast<T*>(__cvta_shared_to_generic(static_cast<size_t>(address))) = value;
}

// ---- warp-level products, float32 accumulation
// d[16x8] += a[16x16] b[16x8]. d: lane l holds (l/4, 2(l%4)), (l/4, +1), (l/4+8, ..),
// (l/4+8, ..+1). a: four 8x8 matrices (0,0) (8,0) (0,8) (8,8); b: two 8x8 matrices of b^T, k 0..7
// and 8..15.

template <typename Element>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  if constexpr (std::is_same_v<Element, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    static_assert(std::is_same_v<Element, __nv_bfloat16>);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}
/// d[16x8] += a[16x8] b[8x8] of float32 whose low 13 bits are not looked at. Lane l holds of `a`
/// elements (l/4, l%4), (l/4+8, l%4), (l/4, l%4+4), (l/4+8, l%4+4), of b (l%4, l/4), (l%4+4, l/4).
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                 uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// The 8x8x8 product in float16: rows 8..15 of `a` are zero, so d[2] and d[3] do not change.
__device__ __forceinline__ void mma_m8n8k8_f16(float (&d)[4], uint32_t a, uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a), "r"(0), "r"(b));
}

}  // namespace gdn::GDN_CUDA_TARGET::hopper
