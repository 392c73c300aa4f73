// gdnbench sweep: verify and time every implementation on every problem, one stored row each.
#include "harness/sweep/sweep.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <set>

#include "harness/cli/axes.h"
#include "harness/cli/command.h"
#include "harness/cli/measure_options.h"
#include "harness/cli/number_check.h"
#include "harness/cli/progress.h"
#include "harness/cli/usage.h"
#include "harness/files/json.h"
#include "harness/problems/shard.h"
#include "harness/rows/row_store.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

class Sweep : public Command {
 public:
  std::string name() const override { return "sweep"; }
  std::string help() const override {
    return "verify and time a grid, each result a row written as it is made; resumes";
  }
  std::string example() const override {
    return "gdnbench sweep --preset figure3 --heads 16/32 --dtype bf16 --out results.h5\n"
           "  gdnbench sweep --preset flashqla-grid --shard 2/8 --out part2.h5\n"
           "  gdnbench sweep --plugin libmine.so --heads 16/32 --dtype bf16 --out mine.h5\n"
           "  gdnbench sweep --merge part1.h5 part2.h5 --out results.h5";
  }

  void add_options(CLI::App& app) override {
    app_ = &app;
    axes_.add_to(app);
    measure_.add_with_plugins_to(app);
    app.add_option("--out", path_,
                   "rows file; rows already in it (same problem, implementation, mode, device and "
                   "sources) are not made again")
        ->required();
    app.add_option("--shard", shard_, "INDEX/COUNT: this part of the problems, as 2/8");
    app.add_option(
        "--merge", merge_,
        "join these rows files into --out, beside the rows it holds, instead of measuring");
    app.add_flag("--full-verify", options_.full_verify,
                 "also the bitwise and continuation checks of gdnbench verify");
    app.add_flag("--no-time", no_time_, "verify only: rows of mode 'verify'");
    app.add_flag("--retry-failed", options_.retry_failed, "make rows again that did not pass");
    app.add_option("--log-every", log_every_s_,
                   "seconds between progress lines when stderr is not a terminal; 0: every row")
        ->check(zero_or_more())
        ->capture_default_str();
    app.add_flag("--quiet", quiet_, "no progress line");
    app.add_flag("--json", json_, "the totals as JSON");
  }

  int run() override { return merge_.empty() ? measure_grid() : merge(); }

 private:
  int merge() const {
    require_only(*app_, {"--merge", "--out", "--quiet", "--json"},
                 "not with --merge; nothing is measured");
    require_appendable(path_);
    const RowsFileLock lock(path_);
    std::vector<std::string> parts = merge_;
    std::size_t before = 0;
    if (std::filesystem::exists(path_)) {
      parts.insert(parts.begin(), path_);
      before = read_rows(path_).rows.size();
    }
    const StoredRows merged = merge_rows(parts);
    write_rows(path_, merged);
    if (json_) {
      fmt::print("{}\n", json_object({{"file", json_string(path_)},
                                      {"rows", std::to_string(merged.rows.size())},
                                      {"before", std::to_string(before)},
                                      {"files", std::to_string(merge_.size())}}));
    } else {
      fmt::print("{} files merged; {} rows in {}, {} before\n", merge_.size(), merged.rows.size(),
                 path_, before);
    }
    return 0;
  }

  // Of the whole grid: a shard may well be left without problems.
  static void require_a_pair(const std::vector<Problem>& problems,
                             const std::vector<const Implementation*>& implementations) {
    std::set<Operation> done;
    for (const Implementation* implementation : implementations) {
      done.insert(implementation->description().operation);
    }
    std::set<std::string> asked;
    for (const Problem& problem : problems) {
      if (done.count(problem.operation) > 0) return;
      asked.insert(to_string(problem.operation));
    }
    std::string operations;
    for (const std::string& name : asked) operations += (operations.empty() ? "" : ", ") + name;
    throw Error(ErrorKind::unsupported,
                "sweep: no implementation does any of the problems: none of those chosen is of " +
                    operations);
  }

  int measure_grid() {
    const Shard shard = shard_.empty() ? Shard{} : Shard::parse(shard_);
    const auto device = open_device(measure_.device());
    const auto implementations = measure_.chosen(device->info());
    const std::vector<Problem> all = problems_of(axes_, device->info());
    require_a_pair(all, implementations);
    const std::vector<Problem> problems = part_of(all, shard);
    options_.measure = measure_.options();
    options_.time = !no_time_;
    options_.command = command_line();
    RowFileSink sink(path_, options_.retry_failed);

    const SweepTotals totals = sweep_with_progress(problems, implementations, *device, options_,
                                                   sink, quiet_ || json_, log_every_s_);
    report(totals);
    return totals.failed > 0 ? 1 : 0;
  }

  void report(const SweepTotals& totals) const {
    if (json_) {
      fmt::print("{}\n", json_object({{"file", json_string(path_)},
                                      {"rows", std::to_string(totals.rows)},
                                      {"resumed", std::to_string(totals.resumed)},
                                      {"ok", std::to_string(totals.ok)},
                                      {"skipped", std::to_string(totals.skipped)},
                                      {"out_of_memory", std::to_string(totals.out_of_memory)},
                                      {"failed", std::to_string(totals.failed)}}));
      return;
    }
    fmt::print(
        "{} rows made: {} ok, {} skipped, {} out of memory, {} failed; {} were there already; {}\n",
        totals.rows, totals.ok, totals.skipped, totals.out_of_memory, totals.failed, totals.resumed,
        path_);
  }

  const CLI::App* app_ = nullptr;
  AxisOptions axes_;
  MeasureCliOptions measure_;
  SweepOptions options_;
  std::string path_;
  std::string shard_;
  std::vector<std::string> merge_;
  double log_every_s_ = 30;
  bool no_time_ = false;
  bool quiet_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_sweep() { return std::make_unique<Sweep>(); }

}  // namespace gdn::cli
