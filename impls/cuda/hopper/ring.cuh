// Rings of shared-memory buffers between the roles of a block: who fills a buffer arrives on its
// `full` barrier, who has read it on its `empty` barrier; both are mbarriers, 8 bytes each.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/hopper/barrier.cuh"
#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::hopper {

/// Position in a ring of `Stages` shared-memory buffers, with the parity of the current round.
template <int Stages>
struct RingPosition {
  uint32_t index = 0;
  uint32_t round_parity = 0;
  __device__ __forceinline__ void advance() {
    if (++index == Stages) {
      index = 0;
      round_parity ^= 1;
    }
  }
};

/// Parity of the round in which a ring of `stages` buffers takes its item number n.
__device__ __forceinline__ uint32_t ring_parity(int n, int stages) {
  return static_cast<uint32_t>(n) / static_cast<uint32_t>(stages) & 1;
}

/// All of a ring that is known at compile time. Buffers, Full, Empty: byte offsets in shared memory
/// of the first buffer and of the first barrier of either kind.
template <int Stages, uint32_t Buffers, uint32_t Bytes, uint32_t Full, uint32_t Empty>
struct Ring {
  static constexpr int kStages = Stages;
  static constexpr uint32_t kBuffers = Buffers, kBytes = Bytes, kFull = Full, kEmpty = Empty;
};

/// Where one role is in a ring. `sm`: the block's shared memory.
template <typename Ring>
struct RingCursor : RingPosition<Ring::kStages> {
  using Position = RingPosition<Ring::kStages>;
  using Position::index, Position::round_parity;

  __device__ __forceinline__ uint32_t buffer(uint32_t sm) const {
    return sm + Ring::kBuffers + index * Ring::kBytes;
  }
  __device__ __forceinline__ uint32_t full(uint32_t sm) const {
    return sm + Ring::kFull + 8 * index;
  }
  __device__ __forceinline__ uint32_t empty(uint32_t sm) const {
    return sm + Ring::kEmpty + 8 * index;
  }
  /// Readers: until the buffer is filled.
  __device__ __forceinline__ void await_full(uint32_t sm) const {
    mbarrier_wait(full(sm), round_parity);
  }
  /// Fillers: until what was in the buffer before has been read.
  __device__ __forceinline__ void await_empty(uint32_t sm) const {
    mbarrier_wait(empty(sm), round_parity ^ 1);
  }
  /// Readers: the buffer has been read.
  __device__ __forceinline__ void release(uint32_t sm) const { mbarrier_arrive(empty(sm)); }
  /// Fillers: the buffer will be full once so many bytes have arrived.
  __device__ __forceinline__ void expect(uint32_t sm, uint32_t bytes) const {
    mbarrier_arrive_expect(full(sm), bytes);
  }
};

/// The cursor of a ring that another role's or ring's position tells.
template <typename Ring>
__device__ __forceinline__ RingCursor<Ring> ring_at(const RingPosition<Ring::kStages>& position) {
  return {position};
}
/// The cursor of the ring's use number n.
template <typename Ring>
__device__ __forceinline__ RingCursor<Ring> ring_use(int n) {
  RingCursor<Ring> cursor;
  cursor.index = static_cast<uint32_t>(n % Ring::kStages);
  cursor.round_parity = ring_parity(n, Ring::kStages);
  return cursor;
}

}  // namespace gdn::GDN_CUDA_TARGET::hopper
