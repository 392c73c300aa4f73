// A sweep: every implementation on every problem, verified and timed, one row each, written as it
// is made. Nothing that happens to one case stops the others: it becomes the row's status and
// reason.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "harness/measure/measure.h"
#include "harness/rows/row.h"
#include "harness/rows/row_store.h"
#include "harness/rows/rows_file_lock.h"
#include "harness/verify/verify.h"
#include "interface/implementation.h"

namespace gdn {

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
/// same sources; with `retry_failed`, only if its status is ok or skipped. No other process may write
/// the file meanwhile: the constructor throws Error(bad_input) where one does.
class RowFileSink : public RowSink {
 public:
  RowFileSink(std::string path, bool retry_failed);
  bool is_finished(const Row& identity) const override;
  void add(const Row& row, const std::vector<TimeSample>& samples) override;

 private:
  std::string path_;
  RowsFileLock lock_;
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

}  // namespace gdn
