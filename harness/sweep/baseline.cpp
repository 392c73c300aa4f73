#include "harness/sweep/baseline.h"

#include <algorithm>
#include <limits>
#include <map>

#include "harness/operations/operation_harness.h"
#include "harness/rows/row_store.h"
#include "harness/sweep/sweep.h"
#include "harness/verify/suites.h"
#include "interface/error.h"

namespace gdn {
namespace {

// Keeps rows in memory; nothing is finished beforehand.
class RowList : public RowSink {
 public:
  bool is_finished(const Row&) const override { return false; }
  void add(const Row& row, const std::vector<TimeSample>&) override { rows.push_back(row); }
  std::vector<Row> rows;
};

std::string baseline_key(const Row& row) { return row.implementation + " on " + row.problem; }

BaselineFinding finding_of(const Row& row, BaselineFinding::Kind kind, const std::string& what) {
  return {kind, row.implementation, row.operation, row.problem, what, {}};
}

// Every `step`-th problem of a suite that takes no more than that many operations.
void add_suite(const std::string& name, std::size_t step, double most_operations,
               std::vector<Problem>& problems) {
  const Suite suite = find_suite(name);
  for (std::size_t i = 0; i < suite.problems.size(); i += step) {
    const Problem& problem = suite.problems[i].problem;
    if (reference::evaluation_flops(problem) > most_operations) continue;
    if (std::find(problems.begin(), problems.end(), problem) == problems.end()) {
      problems.push_back(problem);
    }
  }
}

}  // namespace

std::vector<Problem> baseline_problems(const Backend& backend) {
  std::vector<Problem> problems;
  for (const OperationHarness* harness : operation_harnesses()) {
    for (const std::string& text : harness->baseline()) problems.push_back(Problem::parse(text));
  }
  const bool emulated = !backend.has_own_memory && backend.name != backend.runs;
  add_suite("quick", 1, emulated ? 2e7 : std::numeric_limits<double>::infinity(), problems);
  if (!backend.has_own_memory && !emulated) add_suite("stress", 4, 6e7, problems);
  return problems;
}

std::vector<Row> measure_errors(const std::vector<Problem>& problems,
                                const std::vector<const Implementation*>& implementations,
                                Device& device, const std::string& command) {
  SweepOptions options;
  options.time = false;
  options.command = command;
  RowList list;
  sweep(problems, implementations, device, options, list, nullptr, nullptr);
  std::erase_if(list.rows, [](const Row& row) { return row.status == row_status::kSkipped; });
  return list.rows;
}

std::vector<BaselineFinding> compare_baseline(const std::vector<Row>& stored,
                                              const std::vector<Row>& current,
                                              const BaselineLimits& limits) {
  std::map<std::string, const Row*> now;
  for (const Row& row : current) now[baseline_key(row)] = &row;

  std::vector<BaselineFinding> findings;
  std::map<std::string, const Row*> known;
  for (const Row& row : stored) {
    const std::string key = baseline_key(row);
    known[key] = &row;
    const auto found = now.find(key);
    if (found == now.end()) {
      findings.push_back(
          finding_of(row, BaselineFinding::Kind::gone,
                     "stored, but not measured now: implementation or case is gone"));
      continue;
    }
    const Row& measured = *found->second;
    if (!measured.ok()) continue;  // reported below
    for (const GrownError& error : grown_errors(row, measured, limits.growth)) {
      findings.push_back(finding_of(measured, BaselineFinding::Kind::grown, error.text()));
      findings.back().error = error;
    }
  }
  for (const Row& row : current) {
    const std::string key = baseline_key(row);
    if (!row.ok()) {
      findings.push_back(
          finding_of(row, BaselineFinding::Kind::not_ok, row.status + ": " + row.reason));
    } else if (known.count(key) == 0) {
      findings.push_back(finding_of(row, BaselineFinding::Kind::not_stored,
                                    "nothing is stored of it; gdnbench baseline update stores it"));
    }
  }
  return findings;
}

void store_baseline(const std::string& path, const std::vector<Row>& rows) {
  if (rows.empty()) throw_bad_input("baseline '" + path + "': no rows to store");
  for (const Row& row : rows) {
    if (!row.ok()) {
      throw_bad_input("baseline '" + path + "': not stored, " + baseline_key(row) + " is " +
                      row.status + ": " + row.reason);
    }
  }
  StoredRows stored;
  for (const Row& row : rows) stored.add(row, {});
  write_rows(path, stored);
}

}  // namespace gdn
