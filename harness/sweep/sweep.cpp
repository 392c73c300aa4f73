#include "harness/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <new>
#include <optional>

#include "harness/operations/make_case.h"
#include "harness/run/execute.h"
#include "harness/verify/implementation_apart.h"
#include "interface/error.h"

namespace gdn {
namespace {

const char* status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::unsupported:
      return row_status::kSkipped;
    case ErrorKind::out_of_memory:
      return row_status::kOutOfMemory;
    case ErrorKind::device_failure:
    case ErrorKind::device_unavailable:
      return row_status::kDeviceFailure;
    case ErrorKind::bad_input:
      return row_status::kFailed;
  }
  return row_status::kFailed;
}

void set_status(Row& row, const char* status, const std::string& reason) {
  row.status = status;
  row.reason = reason;
  std::replace(row.reason.begin(), row.reason.end(), '\n', ' ');
}

// What stands in a row before anything ran.
Row identity_row(const Implementation& implementation, const Problem& problem, const Device& device,
                 const SweepOptions& options) {
  Row row;
  describe_problem(problem, row);
  describe_implementation(implementation, row);
  describe_device(device.info(), row);
  describe_build(row);
  row.mode = options.time ? name_of(options.measure.mode) : kVerifyMode;
  row.command = options.command;
  return row;
}

std::string finished_key(const Row& row) {
  return row.key() + " " + row.device + " " + row.source_hash + " " + row.plugin_hash;
}

// Inputs and reference of one problem, made when the first implementation needs them.
class CaseOnDemand {
 public:
  CaseOnDemand(const Problem& problem, const VerifyOptions& options)
      : problem_(problem), options_(options) {}

  const CheckedReference& reference() {
    if (failure_) throw Error(*failure_);
    if (!reference_) {
      try {
        inputs_ = make_case(problem_);
        reference_.emplace(*inputs_, options_);
      } catch (const Error& error) {
        failure_ = error;
        throw;
      } catch (const std::bad_alloc&) {
        failure_ = Error(ErrorKind::out_of_memory, "host memory ran out making the case");
        throw Error(*failure_);
      }
    }
    return *reference_;
  }

 private:
  Problem problem_;
  VerifyOptions options_;
  std::optional<Case> inputs_;
  std::optional<CheckedReference> reference_;
  std::optional<Error> failure_;
};

// Fills the row from a run; throws what running throws.
void run_case(const Implementation& implementation, const CheckedReference& reference,
              Device& device, const SweepOptions& options, Row& row,
              std::vector<TimeSample>& samples) {
  if (options.full_verify || !options.time) {
    VerifyOptions checks = options.verify;
    if (!options.full_verify) {
      checks.repeat = checks.alone = checks.duplicates = checks.continuation = false;
    }
    const VerifyResult result = verify(implementation, reference, device, checks);
    describe_errors(result.report, row);
    if (!result.passed()) {
      set_status(
          row, result.verdict == Verdict::unsupported ? row_status::kSkipped : row_status::kFailed,
          result.reason);
      return;
    }
    row.status = row_status::kOk;
    row.verified_before = 1;
  }
  if (!options.time) return;

  reference::ErrorReport worst;  // of the last outputs judged
  const OutputCheck check = [&](const Outputs& outputs) {
    worst = reference.compare(outputs);
    return reference::violation(worst, worst.limits);
  };
  const Measurement measurement =
      measure(implementation, reference.inputs(), device, check, options.measure);
  describe_errors(worst, row);
  describe_measurement(measurement, row);
  samples = measurement.samples;
}

// Its row, or the one begun with why there is none: what became of its process is no failure of the device.
Row row_apart(const ImplementationApart& implementation, const Problem& problem,
              const SweepOptions& options, Row begun, std::vector<TimeSample>& samples) {
  try {
    return implementation.row(problem, options, samples);
  } catch (const Error& error) {
    set_status(begun, row_status::kFailed, error.what());
    return begun;
  }
}

}  // namespace

Row sweep_row(const Implementation& implementation, const Problem& problem,
              const std::function<const CheckedReference&()>& reference, Device& device,
              const SweepOptions& options, std::vector<TimeSample>& samples) {
  Row row = identity_row(implementation, problem, device, options);
  try {
    if (const Support support = runs_on(implementation, device.info()); !support) {
      throw Error(ErrorKind::unsupported, support.reason);
    }
    require_supported(implementation, problem);
    // Before the inputs are made: the answer may be a matter of arithmetic.
    require_memory(problem, implementation.workspace_bytes(problem), device);
    if (const auto* const apart = dynamic_cast<const ImplementationApart*>(&implementation)) {
      return row_apart(*apart, problem, options, row, samples);
    }
    run_case(implementation, reference(), device, options, row, samples);
  } catch (const Error& error) {
    set_status(row, status_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    set_status(row, row_status::kOutOfMemory, "host memory ran out");
  } catch (const std::exception& error) {
    set_status(row, row_status::kFailed, std::string("unexpected: ") + error.what());
  }
  return row;
}

namespace {

// The path, once it is known that rows can be added there: before anything is made beside it.
std::string appendable(std::string path) {
  require_appendable(path);
  return path;
}

}  // namespace

RowFileSink::RowFileSink(std::string path, bool retry_failed)
    : path_(appendable(std::move(path))), lock_(path_) {
  std::error_code absent;
  if (!std::filesystem::exists(path_, absent)) return;
  for (const Row& row : read_rows(path_).rows) {
    if (retry_failed && !row.ok() && row.status != row_status::kSkipped) continue;
    finished_.insert(finished_key(row));
  }
}

bool RowFileSink::is_finished(const Row& identity) const {
  return finished_.count(finished_key(identity)) > 0;
}

void RowFileSink::add(const Row& row, const std::vector<TimeSample>& samples) {
  append_row(path_, row, samples);
  finished_.insert(finished_key(row));
}

SweepTotals sweep(const std::vector<Problem>& problems,
                  const std::vector<const Implementation*>& implementations, Device& device,
                  const SweepOptions& options, RowSink& sink,
                  const std::function<void(const SweepProgress&)>& progress,
                  const std::function<void(const Row&)>& on_row) {
  const auto pairs_with = [](const Implementation& implementation, const Problem& problem) {
    return implementation.description().operation == problem.operation;
  };
  SweepProgress state;
  for (const Problem& problem : problems) {
    state.total += std::count_if(implementations.begin(), implementations.end(),
                                 [&](const auto* i) { return pairs_with(*i, problem); });
  }
  SweepTotals totals;
  const auto begin = std::chrono::steady_clock::now();
  for (const Problem& problem : problems) {
    CaseOnDemand on_demand(problem, options.verify);
    for (const Implementation* implementation : implementations) {
      if (!pairs_with(*implementation, problem)) continue;
      const Row identity = identity_row(*implementation, problem, device, options);
      if (sink.is_finished(identity)) {
        ++totals.resumed;
        ++state.done;
        continue;
      }
      state.current = identity.implementation + " " + identity.problem;
      state.elapsed_s =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      state.left_s = totals.rows == 0 ? std::nan("")
                                      : state.elapsed_s / static_cast<double>(totals.rows) *
                                            static_cast<double>(state.total - state.done);
      if (progress) progress(state);

      std::vector<TimeSample> samples;
      const Row row = sweep_row(
          *implementation, problem,
          [&]() -> const CheckedReference& { return on_demand.reference(); }, device, options,
          samples);
      sink.add(row, samples);
      ++totals.rows;
      ++state.done;
      if (row.ok()) {
        ++totals.ok;
      } else if (row.status == row_status::kSkipped) {
        ++totals.skipped;
      } else if (row.status == row_status::kOutOfMemory) {
        ++totals.out_of_memory;
      } else {
        ++totals.failed;
      }
      if (on_row) on_row(row);
      if (row.status == row_status::kDeviceFailure) {
        try {
          device.synchronize();
          device.allocate(1 << 20);
        } catch (const Error& error) {
          throw Error(
              ErrorKind::device_failure,
              fmt::format("{} no longer answers after {} ({}); its row is stored: run the same "
                          "command again to go on behind it",
                          device.info().name, row.key(), error.what()));
        }
      }
    }
  }
  state.current.clear();
  state.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  state.left_s = 0;
  if (progress) progress(state);
  return totals;
}

}  // namespace gdn
