#include "cpu/parallel.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "interface/error.h"
#ifdef __linux__
#include <sched.h>
#endif

namespace gdn::cpu {
namespace {

constexpr int kMostThreads = 1024;
std::atomic<int> chosen_threads{0};

int usable_processors() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

/// Threads that sleep between regions. A region is one parallel_for.
class Pool {
 public:
  ~Pool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(std::int64_t count, int workers, const std::function<void(std::int64_t, int)>& body) {
    const std::lock_guard<std::mutex> one_region(region_mutex_);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (static_cast<int>(threads_.size()) < workers - 1) {
        const int worker = static_cast<int>(threads_.size()) + 1;
        threads_.emplace_back([this, worker, seen = region_] { serve(worker, seen); });
      }
      body_ = &body;
      count_ = count;
      next_.store(0, std::memory_order_relaxed);
      workers_ = workers;
      busy_ = workers - 1;
      failure_ = nullptr;
      ++region_;
    }
    wake_.notify_all();
    take_items(body, count, 0);
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
    body_ = nullptr;
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void serve(int worker, std::uint64_t seen) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || region_ != seen; });
      if (stopping_) return;
      seen = region_;
      if (worker >= workers_) continue;  // this region uses fewer threads than the pool has
      const auto* body = body_;
      const std::int64_t count = count_;
      lock.unlock();
      take_items(*body, count, worker);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  void take_items(const std::function<void(std::int64_t, int)>& body, std::int64_t count,
                  int worker) {
    try {
      for (std::int64_t item; (item = next_.fetch_add(1, std::memory_order_relaxed)) < count;) {
        body(item, worker);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      next_.store(count, std::memory_order_relaxed);
    }
  }

  std::mutex region_mutex_;  // held for the whole of a region
  std::mutex mutex_;         // guards what follows
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  const std::function<void(std::int64_t, int)>* body_ = nullptr;
  std::int64_t count_ = 0;
  std::atomic<std::int64_t> next_{0};
  int workers_ = 0;
  int busy_ = 0;
  std::uint64_t region_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;
};

}  // namespace

int thread_count() {
  if (const int chosen = chosen_threads.load(); chosen > 0) return chosen;
  const char* text = std::getenv("GDN_CPU_THREADS");
  if (text == nullptr || *text == '\0') return std::min(usable_processors(), kMostThreads);
  int threads = 0;
  const char* last = text + std::strlen(text);
  const auto [end, status] = std::from_chars(text, last, threads);
  if (status != std::errc() || end != last || threads < 1 || threads > kMostThreads) {
    throw_bad_input("GDN_CPU_THREADS: '" + std::string(text) + "' is not an integer in 1.." +
                    std::to_string(kMostThreads));
  }
  return threads;
}

void set_thread_count(int threads) {
  if (threads < 0 || threads > kMostThreads) {
    throw_bad_input("threads: " + std::to_string(threads) + " is not in 0.." +
                    std::to_string(kMostThreads));
  }
  chosen_threads.store(threads);
}

void parallel_for(std::int64_t count, int workers,
                  const std::function<void(std::int64_t, int)>& body) {
  workers = static_cast<int>(std::min<std::int64_t>(workers, count));
  if (workers <= 1) {
    for (std::int64_t item = 0; item < count; ++item) body(item, 0);
    return;
  }
  static Pool pool;
  pool.run(count, workers, body);
}

}  // namespace gdn::cpu
