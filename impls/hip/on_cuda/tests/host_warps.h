// Enough of a CUDA block on the host to execute lanes_cuda.h: every thread is a fiber, switched
// where it waits; warps have 32 lanes and run in no fixed order. Force-included before
// lanes_device.h in sources compiled by the host's compiler.
#pragma once

#include <cstdint>
#include <functional>

namespace gdn::host_warps {

/// Runs body once in each of `threads` fibers; which one goes on after a wait is drawn from the
/// seed. Throws std::runtime_error if some wait for ever.
void run_block(int threads, unsigned seed, const std::function<void()>& body);

int thread_index();
/// Returns when `threads` fibers have come to barrier `id`.
void wait_at(int id, int threads);
/// The value that lane `lane` of the caller's warp passed; all 32 take part.
double exchange_in_warp(double value, int lane);

struct ThreadIndex {
  unsigned x;
};

}  // namespace gdn::host_warps

#define __device__
#define __shared__ static
// Internal linkage: waves of 64 and of 32 are compiled into one program.
#define __forceinline__ static inline
#define threadIdx \
  (gdn::host_warps::ThreadIndex{static_cast<unsigned>(gdn::host_warps::thread_index())})

/// float, int and double are all exact in a double.
template <typename T>
static inline T __shfl_sync(unsigned, T x, int lane) {
  return static_cast<T>(gdn::host_warps::exchange_in_warp(static_cast<double>(x), lane & 31));
}

namespace gdn::hip {
static inline void named_barrier(int id, int threads) { host_warps::wait_at(id, threads); }
}  // namespace gdn::hip
