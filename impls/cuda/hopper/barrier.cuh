// Synchronisation on Hopper: inside a thread block mbarriers, named barriers, proxy fences,
// register reallocation; between blocks flags in global memory, programmatic dependent launch. Thin
// wrappers of one PTX instruction each (PTX ISA, "Parallel Synchronization and Communication
// Instructions"); device code, sm_90a.
//
// Addresses are 32-bit shared-window addresses (shared_address()): generic 64-bit pointers cost
// registers in kernels that have none to spare.
#pragma once

#include <cstdint>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::hopper {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- mbarrier: 8 bytes of shared memory, 8-byte aligned

/// One thread. `arrivals` completes a phase (together with the announced bytes).
__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// After the inits, before any other proxy or thread uses the barriers.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives and announces bytes that asynchronous copies will bring in this phase.
__device__ __forceinline__ void mbarrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Returns when the phase of this parity is complete (the first phase has parity 0; waiting for
/// parity 1 on a fresh barrier returns at once, as producers of a ring want).
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "GDN_WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra GDN_DONE;\nbra GDN_WAIT;\nGDN_DONE:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// ---- named barriers: id 0 is __syncthreads; `threads` a multiple of 32

__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- fences and resources

/// Makes this thread's ordinary shared-memory writes visible to wgmma and the copy engine: in every
/// writing thread, before the barrier that releases the readers.
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// The pool is what the launch allocated; an increase beyond it never returns. Whole warpgroups
/// only.
template <int Registers>
__device__ __forceinline__ void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

/// Flags in global memory, between blocks. What the releasing thread wrote before, and what those
/// wrote that it has met at a barrier since, is visible to the thread that acquires the value, and
/// to those that this one meets after.
__device__ __forceinline__ int load_acquire(const int* flag) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ __forceinline__ void store_release(int* flag, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
/// The newest value of a flag that says nothing of other memory.
__device__ __forceinline__ int load_relaxed(const int* flag) {
  int value;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

/// Programmatic dependent launch: lets the next kernel of the stream start; and waits until the
/// kernels before this one are complete and their writes visible.
__device__ __forceinline__ void launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__device__ __forceinline__ void wait_for_prerequisites() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace gdn::GDN_CUDA_TARGET::hopper
