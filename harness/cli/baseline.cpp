// gdnbench baseline update | check: numeric errors held to what is stored.
#include "harness/sweep/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "harness/cli/command.h"
#include "harness/cli/number_check.h"
#include "harness/cli/outcome.h"
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
    app.add_option("--file", path_, "rows file; default data/baselines/DEVICE-BACKEND.h5");
    app.add_option("--device", device_, device_names())->capture_default_str();
    app.add_option("--impl", implementations_, "only these implementations")->delimiter(',');
    app.add_option("--growth", limits_.growth, "an error may be this many times the stored one")
        ->capture_default_str()
        ->check(between(1, 100));
    outcome_.add_to(app);
  }

  int run() override {
    const auto device = open_device(device_);
    const std::string path =
        path_.empty() ? "data/baselines/" + device->info().backend + ".h5" : path_;
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
    for (const BaselineFinding& finding : findings) {
      fmt::print(stderr, "gdnbench: baseline: {}: {}\n", finding.key, finding.what);
    }
    outcome_.print(fmt::format("{} errors checked against {}: {} findings", rows.size(), path,
                               findings.size()),
                   {{"file", json_string(path)},
                    {"checked", std::to_string(rows.size())},
                    {"findings", std::to_string(findings.size())}});
    return findings.empty() ? 0 : 1;
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
