#include "harness/verify/side_by_side.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace gdn {
namespace {

// What the threads share: which items are left, how much memory is taken, what waits to be handed
// over.
class Queue {
 public:
  Queue(const SideBySide& how, std::int64_t count, int threads,
        const std::function<std::int64_t(std::int64_t)>& memory_of)
      : how_(how), working_(threads), items_(static_cast<std::size_t>(count)) {
    for (std::int64_t i = 0; i < count; ++i) {
      items_[static_cast<std::size_t>(i)].bytes = memory_of(i);
    }
  }

  // The first item left that there is memory for, once there is one; -1 if none is left.
  std::int64_t take() {
    std::unique_lock lock(mutex_);
    auto item = items_.end();
    changed_.wait(lock, [&] {
      if (failure_) return true;
      const auto is_left = [](const Item& one) { return !one.taken; };
      first_left_ =
          std::find_if(items_.begin() + first_left_, items_.end(), is_left) - items_.begin();
      if (first_left_ == std::ssize(items_)) return true;
      item = std::find_if(items_.begin() + first_left_, items_.end(), [&](const Item& one) {
        return is_left(one) && (under_way_ == 0 || one.bytes <= how_.memory_bytes - taken_bytes_);
      });
      return item != items_.end();
    });
    if (failure_ || item == items_.end()) return -1;
    item->taken = true;
    ++under_way_;
    taken_bytes_ += item->bytes;
    return item - items_.begin();
  }

  void finished(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    Item& item = items_[static_cast<std::size_t>(number)];
    --under_way_;
    taken_bytes_ -= item.bytes;
    item.done = true;
    changed_.notify_all();
  }

  void emit(std::int64_t item, HandOver result) {
    const std::lock_guard lock(mutex_);
    items_[static_cast<std::size_t>(how_.in_order ? item : 0)].results.push_back(std::move(result));
    changed_.notify_all();
  }

  void failed(std::exception_ptr why) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(why);
    changed_.notify_all();
  }

  void stopped() {
    const std::lock_guard lock(mutex_);
    --working_;
    changed_.notify_all();
  }

  // On the calling thread, until every thread has stopped.
  void hand_over_all() {
    std::unique_lock lock(mutex_);
    for (std::size_t at = 0;;) {
      std::vector<HandOver> ready;
      for (; at < items_.size(); ++at) {
        ready.insert(ready.end(), std::make_move_iterator(items_[at].results.begin()),
                     std::make_move_iterator(items_[at].results.end()));
        items_[at].results.clear();
        // After the last thread, nothing more comes of an item that was cut by a failure.
        if (!how_.in_order || !(items_[at].done || working_ == 0)) break;
      }
      if (ready.empty()) {
        if (working_ == 0) break;
        changed_.wait(lock);
        continue;
      }
      lock.unlock();
      try {
        for (const HandOver& result : ready) result();
      } catch (...) {
        failed(std::current_exception());
      }
      lock.lock();
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  struct Item {
    std::int64_t bytes = 0;
    std::vector<HandOver> results;
    bool taken = false;
    bool done = false;
  };

  const SideBySide& how_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t first_left_ = 0;  // none before it is left
  std::int64_t under_way_ = 0;
  std::int64_t taken_bytes_ = 0;
  int working_;
  std::vector<Item> items_;
  std::exception_ptr failure_;
};

}  // namespace

void run_side_by_side(const SideBySide& how, std::int64_t count,
                      const std::function<std::int64_t(std::int64_t)>& memory_of,
                      const std::function<Worker()>& make_worker) {
  const int threads =
      static_cast<int>(std::clamp<std::int64_t>(how.threads, 1, std::max<std::int64_t>(count, 1)));
  if (threads == 1) {
    const Worker worker = make_worker();
    for (std::int64_t item = 0; item < count; ++item) {
      worker(item, [](const HandOver& result) { result(); });
    }
    return;
  }
  Queue queue(how, count, threads, memory_of);
  std::vector<std::jthread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      try {
        const Worker worker = make_worker();
        for (std::int64_t item; (item = queue.take()) >= 0;) {
          worker(item, [&](HandOver result) { queue.emit(item, std::move(result)); });
          queue.finished(item);
        }
      } catch (...) {
        queue.failed(std::current_exception());
      }
      queue.stopped();
    });
  }
  queue.hand_over_all();
}

}  // namespace gdn
