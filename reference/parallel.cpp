#include "reference/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace gdn::reference {

void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t)>& body) {
  const std::int64_t wanted =
      threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  const std::int64_t workers = std::min(wanted, count);
  if (workers <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      for (std::int64_t i = next++; i < count; i = next++) body(i);
    } catch (...) {
      next = count;  // the others stop after the item they are at
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> pool;
    for (std::int64_t i = 1; i < workers; ++i) pool.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace gdn::reference
