// A sweep: every implementation on every problem, verified and timed, one row each, written as it
// is made. Nothing that happens to one case stops the others: it becomes the row's status and
// reason.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "harness/measure.h"
#include "harness/row.h"
#include "harness/row_store.h"
#include "harness/verify.h"
#include "interface/implementation.h"

namespace gdn {

/// Part `index` of `count` (1-based) of the problems, for job arrays.
struct Shard {
  int index = 1;
  int count = 1;
  /// "2/8"; throws Error(bad_input) unless 1 <= index <= count.
  static Shard parse(const std::string& text);
};
/// Every count-th problem from the index-th on: the parts are disjoint and together complete, and
/// neighbours in the grid (of like cost) go to different parts.
template <typename Item>
std::vector<Item> part_of(const std::vector<Item>& problems, const Shard& shard) {
  std::vector<Item> part;
  const auto count = static_cast<std::size_t>(shard.count);
  for (auto i = static_cast<std::size_t>(shard.index - 1); i < problems.size(); i += count) {
    part.push_back(problems[i]);
  }
  return part;
}

/// A part of about as much work as each of the others, its largest problems first, by `work` of a
/// problem. Largest first, each goes to the part that has the least so far; the parts are disjoint
/// and together complete. The whole (1/1) is left in its order.
template <typename Item, typename Work>
std::vector<Item> part_of_equal_work(const std::vector<Item>& problems, const Shard& shard,
                                     const Work& work) {
  if (shard.count == 1) return problems;
  struct Weighed {
    const Item* item;
    double work;
  };
  std::vector<Weighed> ordered;
  for (const Item& problem : problems) ordered.push_back({&problem, work(problem)});
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Weighed& a, const Weighed& b) { return a.work > b.work; });
  std::vector<double> loads(static_cast<std::size_t>(shard.count), 0.0);
  std::vector<Item> part;
  for (const Weighed& weighed : ordered) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += weighed.work;
    if (least - loads.begin() == shard.index - 1) part.push_back(*weighed.item);
  }
  return part;
}

struct SweepOptions {
  MeasureOptions measure;
  bool time = true;          ///< false: rows of mode "verify", errors only
  bool full_verify = false;  ///< run verify()'s bitwise and continuation checks before timing
  VerifyOptions verify;
  bool retry_failed = false;  ///< measure rows again whose status is neither ok nor skipped
  std::string command;        ///< for the rows
};

struct SweepProgress {
  std::int64_t done = 0;  ///< rows made or found finished
  std::int64_t total = 0;
  double elapsed_s = 0;
  double left_s = 0;    ///< estimate; NaN before the first row is made
  std::string current;  ///< what runs now: "cuda/fused gated_delta:..."
};

struct SweepTotals {
  std::int64_t rows = 0;     ///< made now
  std::int64_t resumed = 0;  ///< found finished in the file
  std::int64_t ok = 0;
  std::int64_t skipped = 0;
  std::int64_t failed = 0;  ///< failed or device_failure: a check that did not pass
  std::int64_t out_of_memory = 0;
};

/// One case of a sweep as a row. Throws nothing: what went wrong is the row's status and reason.
/// `reference` gives the problem's inputs and reference; it is asked only if the implementation
/// does the problem and the device has the memory.
Row sweep_row(const Implementation& implementation, const Problem& problem,
              const std::function<const CheckedReference&()>& reference, Device& device,
              const SweepOptions& options, std::vector<TimeSample>& samples);

/// Where rows go as they are made, and which of them are there already.
class RowSink {
 public:
  virtual ~RowSink() = default;
  virtual bool is_finished(const Row& identity) const = 0;
  virtual void add(const Row& row, const std::vector<TimeSample>& samples) = 0;
};

/// Rows of a file. A row is finished if the file holds its key, made on the same device from the
/// same sources; with `retry_failed`, only if its status is ok or skipped.
class RowFileSink : public RowSink {
 public:
  RowFileSink(std::string path, bool retry_failed);
  bool is_finished(const Row& identity) const override;
  void add(const Row& row, const std::vector<TimeSample>& samples) override;

 private:
  std::string path_;
  std::set<std::string> finished_;  ///< key, device and sources of each row
};

/// Rows kept in memory alone.
class RowMemorySink : public RowSink {
 public:
  bool is_finished(const Row&) const override { return false; }
  void add(const Row& row, const std::vector<TimeSample>& samples) override {
    stored_.add(row, samples);
  }
  const StoredRows& stored() const { return stored_; }

 private:
  StoredRows stored_;
};

/// Runs the sweep. A device that no longer answers after a failure ends it: Error(device_failure)
/// after the row is stored, so that the same command goes on behind it.
SweepTotals sweep(const std::vector<Problem>& problems,
                  const std::vector<const Implementation*>& implementations, Device& device,
                  const SweepOptions& options, RowSink& sink,
                  const std::function<void(const SweepProgress&)>& progress,
                  const std::function<void(const Row&)>& on_row);

/// Implementations named, or all that this device can run. A named one that the device cannot run
/// is Error(unsupported) with the reason; an unknown name Error(bad_input) with the nearest.
std::vector<const Implementation*> choose_implementations(const std::vector<std::string>& names,
                                                          const DeviceInfo& device);

}  // namespace gdn
