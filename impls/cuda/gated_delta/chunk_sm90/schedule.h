// When blocks are done that take work items in their order, each the next one as soon as it is free: what planners
// expect of a division of the work. Host only, no CUDA header.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <queue>
#include <vector>

#include "cuda/target.h"

namespace gdn::GDN_CUDA_TARGET::chunk_sm90 {

class Schedule {
 public:
  explicit Schedule(int multiprocessors)
      : busy_until_(std::greater<>(),
                    std::vector<double>(static_cast<std::size_t>(multiprocessors), 0.0)) {}
  /// `copies` items that take `time` and cannot begin before `ready`. Returns the last one's end.
  double add(double time, std::int64_t copies, double ready = 0) {
    double last = 0;
    for (std::int64_t copy = 0; copy < copies; ++copy) {
      const double end = std::max(busy_until_.top(), ready) + time;
      busy_until_.pop();
      busy_until_.push(end);
      last = std::max(last, end);
    }
    end_ = std::max(end_, last);
    return last;
  }
  double end() const { return end_; }

 private:
  std::priority_queue<double, std::vector<double>, std::greater<>> busy_until_;
  double end_ = 0;
};

/// Time until blocks have done `times` of `copies` items each.
inline double makespan(const std::vector<double>& times, std::int64_t copies, int multiprocessors) {
  constexpr std::int64_t kManyItems = 8192;
  const double total =
      std::accumulate(times.begin(), times.end(), 0.0) * static_cast<double>(copies);
  const double longest = times.empty() ? 0 : *std::max_element(times.begin(), times.end());
  if (static_cast<std::int64_t>(times.size()) * copies > kManyItems)  // the average will do
    return std::max(longest, total / multiprocessors);
  Schedule schedule(multiprocessors);
  for (const double time : times) schedule.add(time, copies);
  return schedule.end();
}

}  // namespace gdn::GDN_CUDA_TARGET::chunk_sm90
