// Warpgroup matrix products (wgmma): d[64 x N] += a[64 x 16] b[16 x N], float32 accumulators in
// registers, b in shared memory, a in registers (rs) or shared memory (ss). Device code, sm_90a.
//
// Register fragments. Warp w of the warpgroup holds rows 16w..16w+15. Accumulator d[4j+e], lane l:
// row 16w + l/4 + 8(e/2), column 8j + 2(l%4) + e%2. Operand a (one k16 step), four registers of two
// 16-bit elements: (row l/4, k 2(l%4)), (row +8, same k), (row, k +8), (row +8, k +8). So the 16
// accumulators of columns 16i..16i+15, packed in pairs, are the operand of k16 step i: a product's
// result is the next product's operand without leaving registers.
//
// Shared-memory operands are descriptors of swizzled tiles (PTX ISA, "Matrix-Descriptor Format"):
//   k_major_128(tile): rows of 64 elements (128 bytes, 128-byte swizzle, tile 1024-byte aligned),
//     the reduction dimension contiguous. One k16 step is +2 on the descriptor (32 bytes); 64
//     columns further is the next panel.
//   mn_major_128(tile, panel): the reduction dimension is the row index; 64-wide panels `panel`
//     bytes apart along the other dimension. One k16 step is +128 (2048 bytes). Needs the transpose
//     flag.
//   k_major_32(tile): rows of 16 elements (32 bytes, 32-byte swizzle, 256-byte aligned).
//   k_major_plain(tile, along_k, along_n): blocks of 8 rows of 16 bytes, not swizzled, so many bytes apart along the
//     reduction dimension and along the other.
//
// Products of tf32: float32 of which hardware ignores the last 13 bits (tf32_of() rounds them away). A step has k 8; its
// operand a has (row l/4, k l%4), (row +8, same k), (row, k +4), (row +8, k +4), one element a register.
//
// Use: registers_ready(); products...; commit(); wait<pending>(); then hold() every register array
// that a product in flight read or wrote, so that the compiler moves no access across the wait.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::hopper::wgmma {

__device__ __forceinline__ uint64_t k_major_128(uint32_t tile) {
  return static_cast<uint64_t>((tile & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}
__device__ __forceinline__ uint64_t mn_major_128(uint32_t tile, uint32_t panel) {
  return static_cast<uint64_t>((tile & 0x3ffff) >> 4) | (static_cast<uint64_t>(panel >> 4) << 16) |
         (64ull << 32) | (1ull << 62);
}
__device__ __forceinline__ uint64_t k_major_32(uint32_t tile) {
  return static_cast<uint64_t>((tile & 0x3ffff) >> 4) | (1ull << 16) | (16ull << 32) | (3ull << 62);
}
__device__ __forceinline__ uint64_t k_major_plain(uint32_t tile, uint32_t along_k,
                                                  uint32_t along_n) {
  return static_cast<uint64_t>((tile & 0x3ffff) >> 4) |
         (static_cast<uint64_t>(along_k >> 4) << 16) | (static_cast<uint64_t>(along_n >> 4) << 32);
}

/// A tf32 operand: x rounded to 11 bits, ties away from zero, behind which are bits that are ignored.
__device__ __forceinline__ uint32_t tf32_of(float x) { return __float_as_uint(x) + 0x1000; }

/// Orders this warpgroup's register accesses before the products that follow.
__device__ __forceinline__ void registers_ready() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int Pending>
__device__ __forceinline__ void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
template <int N>
__device__ __forceinline__ void hold(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
template <int N>
__device__ __forceinline__ void hold(uint32_t (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+r"(d[i])::"memory");
}

/// To be called before wait(): has the compiler make `arrays` here, while the products run. It
/// moves arithmetic through wait() down to its use otherwise, into the time when no product runs.
/// What it cannot move it past is a branch on whose other side the values are used as well: `never`
/// is a condition that is false, though the compiler does not see it.
template <typename... Arrays>
__device__ __forceinline__ void made_before_wait(bool never, const Arrays&... arrays) {
  if (never) [[unlikely]] {
    uint32_t to = 0;  // of shared memory: all distinct, or the stores before the last are dropped
    const auto use = [&]<int N>(const float(&x)[N]) {
#pragma unroll
      for (int i = 0; i < N; i += 4, to += 16)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x[i]), "f"(x[i + 1]),
                     "f"(x[i + 2]), "f"(x[i + 3])
                     : "memory");
    };
    (use(arrays), ...);
    __trap();
  }
}

// Operand lists: D = the array, B = its first index.
#define GDN_ACC8(D, B)                                                                        \
  "+f"(D[B]), "+f"(D[B + 1]), "+f"(D[B + 2]), "+f"(D[B + 3]), "+f"(D[B + 4]), "+f"(D[B + 5]), \
      "+f"(D[B + 6]), "+f"(D[B + 7])
#define GDN_ACC32(D, B) GDN_ACC8(D, B), GDN_ACC8(D, B + 8), GDN_ACC8(D, B + 16), GDN_ACC8(D, B + 24)
#define GDN_OPS8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define GDN_OPS16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define GDN_OPS32                                                                              \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GDN_OPS64                                                                                \
  GDN_OPS32                                                                                      \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/// N = 16, a in registers, b K-major.
template <typename Element>
__device__ __forceinline__ void multiply_rs_n16(float (&d)[8], const uint32_t* a, uint64_t b,
                                                bool accumulate) {
#define GDN_WGMMA(TYPE)                                                         \
  asm volatile(                                                                 \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"                              \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32." TYPE "." TYPE " {" GDN_OPS8 \
      "}, "                                                                     \
      "{%8, %9, %10, %11}, %12, p, 1, 1, 0;\n}\n"                               \
      : GDN_ACC8(d, 0)                                                          \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)))
  if constexpr (std::is_same_v<Element, __half>) {
    GDN_WGMMA("f16");
  } else {
    static_assert(std::is_same_v<Element, __nv_bfloat16>);
    GDN_WGMMA("bf16");
  }
#undef GDN_WGMMA
}

/// N = 32, a in registers, b K-major.
template <typename Element>
__device__ __forceinline__ void multiply_rs_n32(float (&d)[16], const uint32_t* a, uint64_t b,
                                                bool accumulate) {
#define GDN_WGMMA(TYPE)                                                          \
  asm volatile(                                                                  \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"                               \
      "wgmma.mma_async.sync.aligned.m64n32k16.f32." TYPE "." TYPE " {" GDN_OPS16 \
      "}, "                                                                      \
      "{%16, %17, %18, %19}, %20, p, 1, 1, 0;\n}\n"                              \
      : GDN_ACC8(d, 0), GDN_ACC8(d, 8)                                           \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)))
  if constexpr (std::is_same_v<Element, __half>) {
    GDN_WGMMA("f16");
  } else {
    static_assert(std::is_same_v<Element, __nv_bfloat16>);
    GDN_WGMMA("bf16");
  }
#undef GDN_WGMMA
}

/// N = 64, a in registers, b K-major.
template <typename Element>
__device__ __forceinline__ void multiply_rs_n64(float (&d)[32], const uint32_t* a, uint64_t b,
                                                bool accumulate) {
#define GDN_WGMMA(TYPE)                                                          \
  asm volatile(                                                                  \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                               \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" GDN_OPS32 \
      "}, "                                                                      \
      "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}\n"                              \
      : GDN_ACC32(d, 0)                                                          \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)))
  if constexpr (std::is_same_v<Element, __half>) {
    GDN_WGMMA("f16");
  } else {
    static_assert(std::is_same_v<Element, __nv_bfloat16>);
    GDN_WGMMA("bf16");
  }
#undef GDN_WGMMA
}

/// N = 64, k 8, of tf32: a in registers, b K-major.
__device__ __forceinline__ void multiply_rs_n64_tf32(float (&d)[32], const uint32_t* a, uint64_t b,
                                                     bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {" GDN_OPS32
      "}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1;\n}\n"
      : GDN_ACC32(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));
}

/// N = 128, a in registers, b MN-major (transposed); always accumulates.
template <typename Element>
__device__ __forceinline__ void multiply_rs_n128_trans(float (&d)[64], const uint32_t* a,
                                                       uint64_t b) {
#define GDN_WGMMA(TYPE)                                                           \
  asm volatile(                                                                   \
      "{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\n"                                  \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {" GDN_OPS64 \
      "}, "                                                                       \
      "{%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}\n"                               \
      : GDN_ACC32(d, 0), GDN_ACC32(d, 32)                                         \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
  if constexpr (std::is_same_v<Element, __half>) {
    GDN_WGMMA("f16");
  } else {
    static_assert(std::is_same_v<Element, __nv_bfloat16>);
    GDN_WGMMA("bf16");
  }
#undef GDN_WGMMA
}

/// N = 64, both in shared memory, both K-major.
template <typename Element>
__device__ __forceinline__ void multiply_ss_n64(float (&d)[32], uint64_t a, uint64_t b,
                                                bool accumulate) {
#define GDN_WGMMA(TYPE)                                                          \
  asm volatile(                                                                  \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                               \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" GDN_OPS32 \
      "}, "                                                                      \
      "%32, %33, p, 1, 1, 0, 0;\n}\n"                                            \
      : GDN_ACC32(d, 0)                                                          \
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)))
  if constexpr (std::is_same_v<Element, __half>) {
    GDN_WGMMA("f16");
  } else {
    static_assert(std::is_same_v<Element, __nv_bfloat16>);
    GDN_WGMMA("bf16");
  }
#undef GDN_WGMMA
}

/// N = 64, a in registers, b MN-major (transposed).
template <typename Element>
__device__ __forceinline__ void multiply_rs_n64_trans(float (&d)[32], const uint32_t* a, uint64_t b,
                                                      bool accumulate) {
  static_assert(std::is_same_v<Element, __nv_bfloat16>);
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" GDN_OPS32
      "}, "
      "{%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"
      : GDN_ACC32(d, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)));
}

/// N = 64, both in shared memory, a K-major and b MN-major (transposed).
template <typename Element>
__device__ __forceinline__ void multiply_ss_n64_trans(float (&d)[32], uint64_t a, uint64_t b,
                                                      bool accumulate) {
  static_assert(std::is_same_v<Element, __nv_bfloat16>);
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" GDN_OPS32
      "}, "
      "%32, %33, p, 1, 1, 0, 1;\n}\n"
      : GDN_ACC32(d, 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

#undef GDN_ACC8
#undef GDN_ACC32
#undef GDN_OPS8
#undef GDN_OPS16
#undef GDN_OPS32
#undef GDN_OPS64

}  // namespace gdn::GDN_CUDA_TARGET::hopper::wgmma
