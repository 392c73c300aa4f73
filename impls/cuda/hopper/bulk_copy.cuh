// The bulk copy engine (TMA): tiled loads and stores through a tensor map, plain bulk copies, and
// the groups that stores complete in. One thread issues; loads complete on an mbarrier (announce
// the bytes first), stores on the issuing thread's bulk groups. Device code, sm_90a.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::hopper {

/// Box at (c0, c1, c2, c3), innermost coordinate first; parts outside the tensor arrive as zeros.
/// destination: 128-byte aligned (1024 for 128-byte swizzled tiles).
__device__ __forceinline__ void tensor_load(uint32_t destination, const CUtensorMap* map,
                                            uint32_t barrier, int c0, int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3,%4,%5,%6}], [%2];" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
/// Parts outside the tensor are not written.
__device__ __forceinline__ void tensor_store(const CUtensorMap* map, uint32_t source, int c0,
                                             int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2,%3,%4,%5}], [%1];" ::"l"(
          map),
      "r"(source), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
/// The same of maps of five dimensions.
__device__ __forceinline__ void tensor_load(uint32_t destination, const CUtensorMap* map,
                                            uint32_t barrier, int c0, int c1, int c2, int c3,
                                            int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3,%4,%5,%6,%7}], [%2];" ::"r"(destination),
      "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}
__device__ __forceinline__ void tensor_store(const CUtensorMap* map, uint32_t source, int c0,
                                             int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2,%3,%4,%5,%6}], "
      "[%1];" ::"l"(map),
      "r"(source), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}
__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// bytes: a multiple of 16; both addresses 16-byte aligned.
__device__ __forceinline__ void bulk_load(uint32_t destination, const void* source, uint32_t bytes,
                                          uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(destination),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void bulk_store(void* destination, uint32_t source, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(destination),
               "r"(source), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
/// At most `Pending` of this thread's groups still read their shared-memory source.
template <int Pending>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}
/// At most `Pending` of this thread's groups are incomplete; the others' writes are done.
template <int Pending>
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}

/// Asks that the line of global memory with this address come to the L2 cache; nothing waits.
__device__ __forceinline__ void prefetch_line(const void* source) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(source) : "memory");
}

// ---- 4-byte copies by ordinary threads, each waiting for its own

__device__ __forceinline__ void copy_4_async(uint32_t destination, const void* source) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(destination), "l"(source)
               : "memory");
}
__device__ __forceinline__ void wait_own_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

}  // namespace gdn::GDN_CUDA_TARGET::hopper
