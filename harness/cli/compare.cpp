// gdnbench compare A B: is B slower or faster than A, and did its errors grow? A and B are rows
// files, or with --paired the gdnbench binaries of two builds, run in turn.
#include "harness/measure/compare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <sstream>

#include "harness/cli/command.h"
#include "harness/cli/number_check.h"
#include "harness/files/json.h"
#include "harness/measure/paired.h"
#include "harness/problems/grid.h"
#include "harness/tables/table.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

std::vector<StoredRows> read_side(const char* name, const std::string& list) {
  std::vector<StoredRows> side;
  for (const std::string& path : split_values(name, list)) side.push_back(read_rows(path));
  return side;
}

std::string percent(double fraction) {
  return fraction == fraction ? fmt::format("{:+.2f}", 100 * fraction) : std::string();
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

// The folder of the processes' rows files: the one named, made if absent, or one of our own that
// goes with this object.
class RowsFolder {
 public:
  explicit RowsFolder(const std::string& named) : path_(named), own_(named.empty()) {
    if (own_) {
      path_ = (std::filesystem::temp_directory_path() / "gdnbench-paired-XXXXXX").string();
      if (mkdtemp(path_.data()) == nullptr) throw_bad_input("no folder could be made: " + path_);
      return;
    }
    std::error_code failure;
    std::filesystem::create_directories(path_, failure);
    if (failure) throw_bad_input("--keep '" + path_ + "': " + failure.message());
  }
  ~RowsFolder() {
    std::error_code ignored;
    if (own_) std::filesystem::remove_all(path_, ignored);
  }
  RowsFolder(const RowsFolder&) = delete;
  RowsFolder& operator=(const RowsFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool own_;
};

class Compare : public Command {
 public:
  std::string name() const override { return "compare"; }
  std::string help() const override {
    return "verdict per row between two builds: same, faster, slower, ambiguous; errors grown";
  }
  std::string example() const override {
    return "gdnbench compare before.h5 after.h5\n"
           "  gdnbench compare before1.h5,before2.h5,before3.h5 after1.h5,after2.h5,after3.h5\n"
           "  gdnbench compare before.h5 after.h5 --tolerance 1 --changed --json\n"
           "  gdnbench compare --paired 6 old/gdnbench new/gdnbench --sweep \"--preset figure3 "
           "--dtype bf16\"\n"
           "  gdnbench compare --paired 6 --plugin libbefore.so libafter.so --sweep \"--heads "
           "16/32\"\n"
           "\n"
           "Verdicts rest on 95 % intervals of the medians and say 'same' or 'slower' only where "
           "the\nwhole interval of the change lies within or beyond the tolerance. Several files "
           "on a side\nare processes, each one sample; alternate the builds while making them "
           "(A B B A).\n--paired N does that: N processes of either binary, in the order A B B A A "
           "B B "
           "A ..., each a sweep\nof its own; the change is judged by the ratios of the pairs.\n"
           "\n"
           "Exit codes: 0 same or faster, errors not grown; 1 an error grew or a check failed in "
           "B;\n2 bad usage or bad input; 4 a row is slower; 5 a row is ambiguous or missing from "
           "B.\nThe first that applies, in the order 1, 4, 5.";
  }

  void add_options(CLI::App& app) override {
    app.add_option("A", a_,
                   "before: rows file, several processes as a comma list; with --paired a gdnbench "
                   "binary")
        ->required();
    app.add_option("B", b_, "after: as A")->required();
    auto* paired = app.add_option("--paired", pairs_,
                                  "run the binaries A and B this many times each, A B B A ...")
                       ->check(CLI::Range(2, 1000));
    app.add_flag("--plugin", plugins_,
                 "A and B are plug-ins (docs/plugins.md), which this program measures")
        ->needs(paired);
    app.add_option("--sweep", sweep_, "options of the sweep that --paired runs, as one string")
        ->needs(paired);
    app.add_option("--keep", keep_, "folder for the rows files of --paired; else not kept")
        ->needs(paired);
    app.add_option("--tolerance", tolerance_percent_, "percent that runs of one build may differ")
        ->capture_default_str()
        ->check(between(0, 100));
    app.add_option("--planted", planted_percent_,
                   "judge B as if it were this many percent slower: would these measurements show "
                   "it?")
        ->check(between(-50, 100));
    app.add_option("--growth", options_.error_growth, "an error of B may be this many times A's")
        ->capture_default_str()
        ->check(between(1, 100));
    app.add_flag("--across-devices", options_.across_devices,
                 "compare rows of different devices (refused otherwise)");
    app.add_flag("--changed", changed_, "list only rows that are not 'same' or 'untimed'");
    app.add_option("--format", format_, "markdown | latex | csv")->capture_default_str();
    app.add_flag("--quiet", quiet_, "no progress line");
    app.add_flag("--json", json_, "JSON instead of a table");
  }

  int run() override {
    const TableFormat format = parse_table_format(format_);
    options_.tolerance = tolerance_percent_ / 100;
    options_.planted_slowdown = planted_percent_ / 100;
    const CompareResult result =
        pairs_ > 0 ? compare_binaries() : compare(read_side("A", a_), read_side("B", b_), options_);
    if (json_) {
      print_json(result);
    } else {
      fmt::print("{}", render(table_of(result), format));
    }
    return result.exit_code();
  }

 private:
  CompareResult compare_binaries() {
    const RowsFolder folder(keep_);
    const PairedRuns runs = run_paired({a_, b_, plugins_, pairs_, words(sweep_), folder.path()},
                                       [&](std::size_t number, const PairedTurn& turn) {
                                         if (quiet_ || json_) return;
                                         fmt::print(stderr, "process {}/{}: {}\n", number + 1,
                                                    2 * pairs_, turn.is_b ? "B" : "A");
                                       });
    options_.paired = true;
    return compare(runs.a, runs.b, options_);
  }

  bool is_listed(const RowComparison& row) const {
    return !changed_ || row.numeric_regression ||
           (row.verdict != SpeedVerdict::same && row.verdict != SpeedVerdict::untimed);
  }

  std::string summary(const CompareResult& result) const {
    std::string text;
    for (const SpeedVerdict verdict :
         {SpeedVerdict::same, SpeedVerdict::faster, SpeedVerdict::slower, SpeedVerdict::ambiguous,
          SpeedVerdict::missing, SpeedVerdict::untimed}) {
      if (result.count(verdict) == 0) continue;
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", result.count(verdict),
                          to_string(verdict));
    }
    std::int64_t grown = 0;
    for (const RowComparison& row : result.rows) grown += row.numeric_regression ? 1 : 0;
    return fmt::format("{} rows: {}; {} numeric regressions", result.rows.size(), text, grown);
  }

  Table table_of(const CompareResult& result) const {
    Table table;
    table.title = "B against A. " + summary(result);
    table.header = {"verdict",  "implementation", "problem",
                    "mode",     "A ms",           "B ms",
                    "change %", "errors",         "reason: change (95 % interval), tolerance"};
    table.label_columns = table.header.size();  // the reason is a text, too
    for (const RowComparison& row : result.rows) {
      if (!is_listed(row)) continue;
      table.rows.push_back(
          {to_string(row.verdict), row.implementation, row.problem, row.mode,
           significant(row.a_ms.median), significant(row.b_ms.median), percent(row.change),
           row.numeric_regression ? "REGRESSION" : "",
           row.numeric_regression ? row.numeric_reason + ". " + row.reason : row.reason});
    }
    table.notes = result.notes;
    table.notes.push_back("A: " + a_ + ". B: " + b_);
    if (planted_percent_ != 0) {
      table.notes.push_back(fmt::format(
          "B's times are taken {:g} % longer than measured (--planted)", planted_percent_));
    }
    return table;
  }

  void print_json(const CompareResult& result) const {
    std::string rows;
    for (const RowComparison& row : result.rows) {
      if (!is_listed(row)) continue;
      const auto interval = [](const MedianInterval& side) {
        return json_object({{"low", json_number(side.low)},
                            {"median", json_number(side.median)},
                            {"high", json_number(side.high)},
                            {"samples", std::to_string(side.count)}});
      };
      rows += (rows.empty() ? "" : ",\n  ") +
              json_object({{"problem", json_string(row.problem)},
                           {"implementation", json_string(row.implementation)},
                           {"mode", json_string(row.mode)},
                           {"device", json_string(row.device)},
                           {"verdict", json_string(to_string(row.verdict))},
                           {"reason", json_string(row.reason)},
                           {"change", json_number(row.change)},
                           {"change_low", json_number(row.change_low)},
                           {"change_high", json_number(row.change_high)},
                           {"a_ms", interval(row.a_ms)},
                           {"b_ms", interval(row.b_ms)},
                           {"numeric_regression", row.numeric_regression ? "true" : "false"},
                           {"numeric_reason", json_string(row.numeric_reason)},
                           {"inconclusive", row.inconclusive ? "true" : "false"}});
    }
    std::string notes;
    for (const std::string& note : result.notes) {
      notes += (notes.empty() ? "" : ", ") + json_string(note);
    }
    fmt::print("{}\n", json_object({{"exit_code", std::to_string(result.exit_code())},
                                    {"tolerance", json_number(options_.tolerance)},
                                    {"planted_slowdown", json_number(options_.planted_slowdown)},
                                    {"notes", "[" + notes + "]"},
                                    {"rows", "[" + rows + "]"}}));
  }

  std::string a_;
  std::string b_;
  CompareOptions options_;
  double tolerance_percent_ = 1.5;
  double planted_percent_ = 0;
  int pairs_ = 0;         ///< 0: A and B are rows files
  bool plugins_ = false;  ///< A and B are
  std::string sweep_;
  std::string keep_;
  bool changed_ = false;
  bool quiet_ = false;
  std::string format_ = "markdown";
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_compare() { return std::make_unique<Compare>(); }

}  // namespace gdn::cli
