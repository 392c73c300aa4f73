// Items of work done by several threads within a bound on memory, their results handed over on one.
#pragma once

#include <cstdint>
#include <functional>

namespace gdn {

/// Something to be done with a result on the calling thread: print it, count it.
using HandOver = std::function<void()>;
/// Takes each result of an item as it is made; may be called from any thread.
using Emit = std::function<void(HandOver)>;
/// Does one item. Each thread has a worker of its own, with what it needs (a device).
using Worker = std::function<void(std::int64_t item, const Emit& emit)>;

struct SideBySide {
  int threads = 1;  ///< 1: everything on the calling thread
  /// What the items under way may hold together. One that needs more than that runs alone.
  std::int64_t memory_bytes = 0;
  /// Results in the order of the items, each as soon as those before it are done; else as made.
  bool in_order = true;
};

/// Does items 0..count-1, handed out in that order; an item that there is no memory for waits, and
/// those after it that fit go ahead. `memory_of(item)` is what an item holds at most. `make_worker`
/// is called once on each thread. The first exception of a worker or a hand-over is rethrown once
/// every thread has stopped; what was emitted before it is handed over.
void run_side_by_side(const SideBySide& how, std::int64_t count,
                      const std::function<std::int64_t(std::int64_t)>& memory_of,
                      const std::function<Worker()>& make_worker);

}  // namespace gdn
