// The one place where the CPU backend makes threads: independent items over a persistent pool.
//
// Results never depend on the number of threads: an item is computed whole by one worker, in an
// order of arithmetic of its own, and writes memory no other item writes.
#pragma once

#include <cstdint>
#include <functional>

namespace gdn::cpu {

/// Threads that plans made from now on use: set_thread_count(), else the environment variable
/// GDN_CPU_THREADS, else the processors this process may run on. Throws Error(bad_input) when the
/// variable is no integer in 1..1024.
int thread_count();

/// 0 returns to the environment's choice. Throws Error(bad_input) outside 0..1024.
void set_thread_count(int threads);

/// Calls body(item, worker) for every item in [0, count), with worker in [0, workers): each worker
/// index is in use by one thread at a time, so it may select a workspace. Items are handed out in
/// rising order, one at a time. The caller takes part as worker 0; returns when all items are done
/// and rethrows the first exception. One region runs at a time in the process (others wait); body
/// must not call parallel_for.
void parallel_for(std::int64_t count, int workers,
                  const std::function<void(std::int64_t item, int worker)>& body);

/// Floats of a workspace rounded up to whole cache lines, so that each worker's part starts on one of its own.
constexpr std::int64_t in_lines(std::int64_t floats) {
  constexpr std::int64_t kFloatsPerLine = 16;  // 64 bytes
  return (floats + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

}  // namespace gdn::cpu
