// Runs a CUDA kernel's grid on the CPU: every thread of a block is a fibre, blocks are shared among
// the processors. A fibre runs until it has to wait for others (a barrier, or an operation of its
// warp), so a kernel behaves as on a GPU whose scheduler takes the order chosen here: one that
// misses a barrier gives other results in at least one of the orders.
//
// Reported as Error(device_failure): threads that wait for ever, lanes of a warp that meet in
// different operations, writes past the dynamic shared memory. Not modelled: races that no order of
// whole steps between waits shows, memory ordering, time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace gdn::cuda_grid {

/// Order in which the warps of a block, and the lanes of a warp, get their turns.
enum class ThreadOrder {
  forward,  ///< the first warp runs as far as it can, then the second, ...
  reverse,  ///< the last one first
  random,   ///< one step of a random warp at a time
};

struct ExecutionOptions {
  ThreadOrder order = ThreadOrder::forward;
  std::uint64_t seed = 1;  ///< of ThreadOrder::random
};
/// Of the launches from now on.
void set_execution_options(const ExecutionOptions& options);

/// Runs `body` as every thread of `blocks` blocks, and returns when all have ended; while launches
/// are captured, keeps it instead.
void enqueue_grid(unsigned int blocks, unsigned int threads, std::size_t shared_bytes,
                  std::function<void()> body);
/// The dynamic shared memory a kernel may be launched with: 48 KiB until something else is said,
/// and then that, as a driver keeps it.
void set_most_shared_memory(const void* kernel, std::size_t bytes);
/// Throws Error(device_failure) if it is less than `bytes`.
void require_shared_memory(const void* kernel, std::size_t bytes);
/// Calls `launch` and returns a function that runs what it enqueued: of this thread.
std::function<void()> capture_grids(const std::function<void()>& launch);

// ---- for the threads of a running grid

/// The block's dynamic shared memory, at a multiple of 1024, filled with NaN when the block starts.
/// A 32-bit shared address is an offset into it.
unsigned char* dynamic_shared_memory();

/// Waits until `num_threads` threads (0: all that have not ended) wait at barrier `name`.
void barrier(int name, int num_threads);

/// A warp's meeting: each lane hands in a value and sees those of all.
constexpr std::size_t kSlotBytes = 64;
constexpr std::size_t kResultBytes = 256;  // 64 sums of a 64 x 128 product
struct WarpSlots {
  alignas(16) unsigned char given[32][kSlotBytes];
  alignas(16) unsigned char result[32][kResultBytes];  ///< what `complete` makes of them
};
/// Stores `bytes` bytes as this lane's value, waits for the whole warp, has the last lane call
/// `complete` (may be null), and returns the warp's slots: valid until the lane's next but one
/// meeting. `operation` must be the same for all lanes.
const WarpSlots& meet(const char* operation, const void* value, std::size_t bytes,
                      void (*complete)(WarpSlots&));

/// Set for the fibre that runs.
inline thread_local int running_lane = 0;
inline int lane_index() { return running_lane; }

/// For a thread that looks at global memory until another block has written it: its next turn comes when
/// no thread of its own block can do anything else, and other blocks' processors had theirs. A thread that
/// kept its turn would hold back those of its block for which that other block may wait.
void look_again();

/// cp.async: copies are made when their group is waited for, as late as the hardware may.
void add_copy(void* shared, const void* source, bool valid);
void close_copy_group();
void wait_copy_groups(int pending);

// ---- mbarriers, named by their shared address, and what completes on them

void mbarrier_init(std::uint32_t address, std::uint32_t arrivals);
/// One arrival, after announcing `bytes` bytes that transfers will bring.
void mbarrier_arrive(std::uint32_t address, std::uint32_t bytes);
/// Waits until the phase of this parity is complete.
void mbarrier_wait(std::uint32_t address, std::uint32_t parity);

/// A copy engine's transfer into shared memory; its bytes complete on the mbarrier. Made at once
/// with ThreadOrder::forward, otherwise only when every thread waits.
void add_load(std::uint32_t mbarrier, std::uint32_t bytes, std::function<void()> copy);
/// One out of shared memory, in this thread's open group: made at once with ThreadOrder::forward,
/// otherwise when the group is waited for, or at the block's end.
void add_store(std::function<void()> copy);
void close_store_group();
void wait_store_groups(int pending);

}  // namespace gdn::cuda_grid
