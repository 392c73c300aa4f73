// The instructions the portable kernels (sm_80 and later) use beyond CUDA C++, one function each:
// asynchronous copies, barriers, matrix loads and products. The file of the same name under
// emulated/ gives them a meaning on the CPU.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/shared_memory.cuh"
#include "cuda/target.h"

#ifdef __CUDACC__

namespace gdn::GDN_CUDA_TARGET {

// ---- cp.async: copies from global to shared memory that the thread does not wait for

/// Copies 16 bytes. Both addresses are multiples of 16 bytes.
__device__ __forceinline__ void copy16_async(void* shared, const void* source) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(source) : "memory");
}

/// The same, or writes 16 zero bytes where `valid` is false (`source` is then not read, but must
/// still be a mapped address).
__device__ __forceinline__ void copy16_async_if(bool valid, void* shared, const void* source) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(source),
               "r"(valid ? 16 : 0)
               : "memory");
}

/// Closes the group of copies issued since the last call (it may be empty).
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most `Pending` of this thread's newest groups are still under way. What other
/// threads copied is visible only after a barrier with them.
template <int Pending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// ---- cache policies

/// 16 bytes of global memory, at a multiple of 16 bytes, whose line is to be the last to leave the L2.
__device__ __forceinline__ uint4 load_evict_last(const void* source) {
  uint4 word;
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
               : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
               : "l"(source), "l"(policy));
  return word;
}

// ---- barriers for warps of different roles, which pass them from different places in the code

/// Of the whole block: the threads of a warp pass it at one place, warps at several (PTX ISA,
/// "barrier": .aligned, as bar.sync is, speaks of a warp). compute-sanitizer's synccheck reports
/// it as divergence within the block. The unaligned barrier.sync makes recurrent_staged spill.
__device__ __forceinline__ void block_barrier() { asm volatile("bar.sync 0;" ::: "memory"); }

/// Of `num_threads` threads of whole warps, all at the same place in the code; `name` is 1 .. 15.
template <int name>
__device__ __forceinline__ void named_barrier(int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"n"(name), "r"(num_threads) : "memory");
}

// ---- tensor cores: PTX ISA, "Matrix Fragments for mma.m16n8k16" and "mma.m16n8k8" (.tf32)

/// Four 8x8 matrices of 16-bit elements: lane i gives the address of row i % 8 of matrix i / 8 and
/// receives, of each, the pair of columns 2 (lane % 4) of row lane / 4.
__device__ __forceinline__ void load_matrices(std::uint32_t (&pairs)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row))));
}

/// As load_matrices, each matrix transposed.
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&pairs)[4],
                                                         const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row))));
}

/// sums [16 x 8] += a [16 x 16] b [16 x 8], 16-bit operands, float32 sums.
template <typename Element>
__device__ __forceinline__ void mma_m16n8k16(float* sums, const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<Element, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// sums [16 x 8] += a [16 x 8] b [8 x 8], operands float32 whose low 13 bits are not looked at.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&sums)[4], const std::uint32_t (&a)[4],
                                                 std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- others

/// 2^x, flushed to zero below the normal range.
__device__ __forceinline__ float exp2_flushed(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// a b + c, rounded toward zero.
__device__ __forceinline__ float fma_toward_zero(float a, float b, float c) {
  return __fmaf_rz(a, b, c);
}

/// A pair of float16, rounded toward zero: what is finite and too large becomes 65504.
__device__ __forceinline__ std::uint32_t halves_toward_zero(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// This thread's lane and warp, read anew: what is derived from it is computed where it is used,
/// rather than once before the loop over chunks and then held in registers that the state needs.
__device__ __forceinline__ int lane_anew() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
__device__ __forceinline__ int warp_anew() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread / 32;
}

}  // namespace gdn::GDN_CUDA_TARGET

#endif  // __CUDACC__
