// gdnbench baseline update | check: numeric errors held to what is stored.
#include "harness/sweep/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "harness/cli/command.h"
#include "harness/cli/number_check.h"
#include "harness/cli/outcome.h"
#include "harness/files/data_file.h"
#include "harness/files/json.h"
#include "harness/rows/row_store.h"
#include "harness/rows/rows_file_lock.h"
#include "harness/sweep/sweep.h"
#include "interface/error.h"
#include "interface/select.h"

namespace gdn::cli {
namespace {

class Baseline : public Command {
 public:
  std::string name() const override { return "baseline"; }
  std::string help() const override {
    return "error regression: store the errors of every implementation, or check against them";
  }
  std::string example() const override {
    return "gdnbench baseline check --device cpu\n"
           "  gdnbench baseline update --device cpu --file data/baselines/cpu.h5";
  }

  void add_options(CLI::App& app) override {
    app.add_option("action", action_, "update: store; check: exit 1 if an error grew")
        ->required()
        ->check(CLI::IsMember({"update", "check"}));
    app.add_option("--file", path_,
                   "rows file; default data/baselines/BACKEND.h5, here or where the "
                   "program is");
    app.add_option("--device", device_, device_names())->capture_default_str();
    app.add_option("--impl", implementations_, "only these implementations")->delimiter(',');
    app.add_option("--growth", limits_.growth, "an error may be this many times the stored one")
        ->capture_default_str()
        ->check(between(1, 100));
    outcome_.add_to(app);
  }

  int run() override {
    const auto device = open_device(device_);
    const std::string path = path_.empty() ? default_path(device->info().backend) : path_;
    const auto implementations = choose_implementations(implementations_, device->info());
    // A missing or foreign file is found before the work, not after.
    std::vector<Row> stored;
    std::unique_ptr<RowsFileLock> lock;
    if (action_ == "check") {
      stored = read_rows(path).rows;
    } else {
      require_appendable(path);
      lock = std::make_unique<RowsFileLock>(path);
    }
    const std::vector<Row> rows =
        measure_errors(baseline_problems(find_backend(device->info().backend)), implementations,
                       *device, command_line());
    if (action_ == "update") return update(path, rows);
    return check(path, stored, rows);
  }

 private:
  // What check reads is what update writes. Where there is none yet, it belongs into the sources.
  static std::string default_path(const std::string& backend) {
    const std::string name = "baselines/" + backend + ".h5";
    const std::string found = find_data_file(name);
    return found.empty() ? "data/" + name : found;
  }

  int update(const std::string& path, std::vector<Row> rows) const {
    // With --impl, the other implementations keep what is stored of them.
    if (!implementations_.empty() && std::filesystem::exists(path)) {
      for (const Row& row : read_rows(path).rows) {
        if (!is_named(row)) rows.push_back(row);
      }
    }
    store_baseline(path, rows);
    outcome_.print(fmt::format("{} errors stored in {}", rows.size(), path),
                   {{"file", json_string(path)}, {"stored", std::to_string(rows.size())}});
    return 0;
  }

  int check(const std::string& path, std::vector<Row> stored, const std::vector<Row>& rows) const {
    std::erase_if(stored, [&](const Row& row) { return !is_named(row); });
    const auto findings = compare_baseline(stored, rows, limits_);
    for (const BaselineFindings& group : worst_first(findings)) print(group);
    outcome_.print(fmt::format("{} errors checked against {}: {} findings", rows.size(), path,
                               findings.size()),
                   {{"file", json_string(path)},
                    {"checked", std::to_string(rows.size())},
                    {"findings", json_findings(worst_first(findings))}});
    return findings.empty() ? 0 : 1;
  }

  // The worst of an implementation and operation; the rest is for programs to read.
  static void print(const BaselineFindings& group) {
    constexpr std::size_t kMost = 5;
    const std::size_t count = group.findings.size();
    fmt::print(stderr, "gdnbench: baseline: {}, {}: {} {}\n", group.implementation, group.operation,
               count, count == 1 ? "finding" : "findings, the worst first");
    for (std::size_t i = 0; i < std::min(count, kMost); ++i) {
      const BaselineFinding& finding = group.findings[i];
      const std::string times =
          finding.error ? fmt::format("{:.3g} x its limit, ", finding.error->times_allowed()) : "";
      fmt::print(stderr, "  {}: {}{}\n", finding.problem, times, finding.what);
    }
    if (count > kMost) fmt::print(stderr, "  and {} more; --json lists all\n", count - kMost);
  }

  static std::string json_findings(const std::vector<BaselineFindings>& groups) {
    std::string list;
    for (const BaselineFindings& group : groups) {
      for (const BaselineFinding& finding : group.findings) {
        std::vector<std::pair<std::string, std::string>> members = {
            {"kind", json_string(name_of(finding.kind))},
            {"implementation", json_string(finding.implementation)},
            {"operation", json_string(finding.operation)},
            {"problem", json_string(finding.problem)},
            {"what", json_string(finding.what)}};
        if (finding.error) {
          const GrownError& error = *finding.error;
          members.insert(members.end(),
                         {{"output", json_string(error.output)},
                          {"metric", json_string(name_of(error.metric))},
                          {"stored", json_number(error.stored)},
                          {"now", json_number(error.now)},
                          {"allowed", json_number(error.allowed)},
                          {"now_over_stored", json_number(error.now / error.stored)},
                          {"now_over_allowed", json_number(error.now / error.allowed)}});
        }
        list += (list.empty() ? "" : ",\n ") + json_object(members);
      }
    }
    return "[" + list + "]";
  }

  bool is_named(const Row& row) const {
    return implementations_.empty() || std::find(implementations_.begin(), implementations_.end(),
                                                 row.implementation) != implementations_.end();
  }

  std::string action_;
  std::string path_;
  std::string device_ = "best";
  std::vector<std::string> implementations_;
  BaselineLimits limits_;
  Outcome outcome_;
};

}  // namespace

std::unique_ptr<Command> make_baseline() { return std::make_unique<Baseline>(); }

}  // namespace gdn::cli
