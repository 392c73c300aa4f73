// Items done side by side: each once, results on the calling thread and in order, memory bounded,
// the first failure told.
#include "harness/verify/side_by_side.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace gdn {
namespace {

std::int64_t no_memory(std::int64_t) { return 0; }

std::vector<std::int64_t> first(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(SideBySide, EveryItemIsHandedOverOnceInOrderOnTheCallingThread) {
  for (const int threads : {1, 2, 5, 64}) {
    for (const std::int64_t count : {0, 1, 3, 200}) {
      std::vector<std::int64_t> seen;
      const auto caller = std::this_thread::get_id();
      run_side_by_side({threads, 0, true}, count, no_memory, [&]() -> Worker {
        return [&](std::int64_t item, const Emit& emit) {
          if (item % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
          emit([&, item] {
            EXPECT_EQ(std::this_thread::get_id(), caller);
            seen.push_back(item);
          });
        };
      });
      EXPECT_EQ(seen, first(count)) << threads << " threads";
    }
  }
}

TEST(SideBySide, UnorderedResultsAreAllHandedOver) {
  std::int64_t sum = 0;
  run_side_by_side({4, 0, false}, 100, no_memory, [&]() -> Worker {
    return [&](std::int64_t item, const Emit& emit) { emit([&sum, item] { sum += item; }); };
  });
  EXPECT_EQ(sum, 99 * 100 / 2);
}

// A run that is cut must have shown what was done: results do not wait for their item's end, nor,
// where no order is asked for, for the items before.
TEST(SideBySide, ResultsAreHandedOverBeforeTheirItemEnds) {
  for (const bool in_order : {true, false}) {
    std::promise<void> handed_over;
    std::shared_future<void> seen = handed_over.get_future().share();
    const std::int64_t early = in_order ? 0 : 1;
    std::atomic<bool> in_time = true;
    run_side_by_side({2, 0, in_order}, 2, no_memory, [&]() -> Worker {
      return [&](std::int64_t item, const Emit& emit) {
        if (item == early) emit([&] { handed_over.set_value(); });
        if (seen.wait_for(std::chrono::seconds(20)) != std::future_status::ready) in_time = false;
      };
    });
    EXPECT_TRUE(in_time) << "in order: " << in_order;
  }
}

TEST(SideBySide, ItemsUnderWayStayWithinTheMemoryOrRunAlone) {
  const std::vector<std::int64_t> bytes = {40, 30, 30, 20, 250, 10, 90, 100, 5, 101, 5, 5};
  std::atomic<std::int64_t> held = 0;
  std::atomic<int> too_much = 0;
  std::atomic<int> together = 0;
  std::atomic<int> most_together = 0;
  run_side_by_side(
      {6, 100, true}, static_cast<std::int64_t>(bytes.size()),
      [&](std::int64_t i) { return bytes[static_cast<std::size_t>(i)]; },
      [&]() -> Worker {
        return [&](std::int64_t i, const Emit&) {
          const std::int64_t own = bytes[static_cast<std::size_t>(i)];
          if ((held += own) > std::max<std::int64_t>(100, own)) ++too_much;
          const int now = ++together;
          for (int most = most_together;
               now > most && !most_together.compare_exchange_weak(most, now);) {
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(3));
          --together;
          held -= own;
        };
      });
  EXPECT_EQ(too_much, 0);
  EXPECT_GT(most_together, 1) << "nothing ran side by side";
}

// One large item after another would else leave every other thread without work.
TEST(SideBySide, ItemsThatFitGoAheadOfOneThatDoesNot) {
  const std::vector<std::int64_t> bytes = {90, 90, 200, 10, 10};
  std::promise<void> small_are_done;
  const std::shared_future<void> seen = small_are_done.get_future().share();
  std::atomic<int> small = 0;
  std::atomic<bool> in_time = true;
  std::vector<std::int64_t> order;
  run_side_by_side(
      {2, 100, false}, static_cast<std::int64_t>(bytes.size()),
      [&](std::int64_t i) { return bytes[static_cast<std::size_t>(i)]; },
      [&]() -> Worker {
        return [&](std::int64_t i, const Emit& emit) {
          if (i == 0)
            in_time = seen.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
          emit([&order, i] { order.push_back(i); });
          if (i >= 3 && ++small == 2) small_are_done.set_value();
        };
      });
  EXPECT_TRUE(in_time) << "items 3 and 4 waited for item 1, which has no memory beside item 0";
  EXPECT_EQ(order, (std::vector<std::int64_t>{3, 4, 0, 1, 2}));
}

TEST(SideBySide, TheFirstFailureIsRethrownAfterWhatCameBefore) {
  for (const int threads : {1, 4}) {
    std::vector<std::int64_t> seen;
    std::string said;
    try {
      run_side_by_side({threads, 0, true}, 1000, no_memory, [&]() -> Worker {
        return [&](std::int64_t item, const Emit& emit) {
          if (item == 20) throw std::runtime_error("item 20");
          if (item > 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          emit([&seen, item] { seen.push_back(item); });
        };
      });
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
    EXPECT_EQ(said, "item 20");
    ASSERT_GE(seen.size(), 20u) << threads << " threads";
    EXPECT_LT(seen.size(), 1000u) << "went on after the failure";
    seen.resize(20);
    EXPECT_EQ(seen, first(20));
  }
}

TEST(SideBySide, FailuresOfWorkersMadeAndOfHandOversAreRethrown) {
  const auto fails = [](const std::function<Worker()>& make_worker) {
    try {
      run_side_by_side({3, 0, true}, 50, no_memory, make_worker);
    } catch (const std::logic_error&) {
      return true;
    }
    return false;
  };
  EXPECT_TRUE(fails([]() -> Worker { throw std::logic_error("no device"); }));
  EXPECT_TRUE(fails([]() -> Worker {
    return [](std::int64_t item, const Emit& emit) {
      emit([item] {
        if (item == 7) throw std::logic_error("disk full");
      });
    };
  }));
}

}  // namespace
}  // namespace gdn
