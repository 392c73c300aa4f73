// gdnbench report RUN.h5 --out report.html: rows as one page with a table and plots.
#include "harness/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "harness/cli/command.h"
#include "harness/cli/outcome.h"
#include "harness/cli/usage.h"
#include "harness/files/json.h"
#include "harness/files/whole_file.h"
#include "harness/rows/row_store.h"
#include "harness/tables/pivot.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

class Report : public Command {
 public:
  std::string name() const override { return "report"; }
  std::string help() const override {
    return "one self-contained HTML page from rows files: summary, filterable table, plots";
  }
  std::string example() const override {
    return "gdnbench report results.h5 --out report.html\n"
           "  gdnbench report results.h5 --baseline data/baselines/cpu.h5 --where device=cpu "
           "--out report.html\n"
           "  gdnbench report today.h5 --history monday.h5,tuesday.h5 --out report.html";
  }

  void add_options(CLI::App& app) override {
    app.add_option("files", files_, "rows files; several are merged first")->required();
    app.add_option("--out", path_, "HTML file to write")->required();
    app.add_option("--title", options_.title,
                   "heading of the page (default: the operations it is about)");
    app.add_option("--baseline", baseline_, "rows file; a plot shows this run relative to it");
    app.add_option("--history", history_,
                   "rows files of earlier runs, oldest first, comma list; a plot shows each run of "
                   "them and this one over the first")
        ->delimiter(',');
    app.add_option("--where", filters_, "COLUMN=VALUE or COLUMN=A|B: only these rows; repeatable");
    outcome_.add_to(app);
  }

  int run() override {
    std::vector<RowFilter> filters;
    for (const std::string& text : filters_) filters.push_back(parse_row_filter(text));
    require_none_overwritten(path_, files_);
    require_none_overwritten(path_, history_);
    require_none_overwritten(path_, {baseline_});
    const std::vector<Row> all = merge_rows(files_).rows;
    const std::vector<Row> rows = filtered(all, filters);
    if (rows.empty()) {
      throw_bad_input(
          fmt::format("report: none of the {} rows of {} matches", all.size(), files_[0]));
    }
    if (!baseline_.empty()) options_.baseline = read_rows(baseline_).rows;
    for (const std::string& path : history_) {
      const std::vector<Row> earlier = read_rows(path).rows;
      options_.history.push_back({run_label(path, earlier), earlier});
    }
    if (!history_.empty()) options_.history.push_back({"this run", rows});
    options_.command = command_line();
    const std::string page = report_html(rows, options_);
    if (const auto failure = write_whole_file(path_, page.data(), page.size())) {
      throw_bad_input("report '" + path_ + "': cannot be written: " + failure.message());
    }
    outcome_.print(
        fmt::format("{} rows in {} ({} kB)", rows.size(), path_, (page.size() + 1023) / 1024),
        {{"file", json_string(path_)},
         {"rows", std::to_string(rows.size())},
         {"bytes", std::to_string(page.size())}});
    return 0;
  }

 private:
  // "rows-1 2026-11-21", its place in front where that is not the only one of its name.
  std::string run_label(const std::string& path, const std::vector<Row>& rows) const {
    const std::string day = rows.empty() ? "" : " " + rows.front().date.substr(0, 10);
    const std::string label = std::filesystem::path(path).stem().string() + day;
    const bool taken = std::any_of(options_.history.begin(), options_.history.end(),
                                   [&](const auto& run) { return run.label == label; });
    return taken ? fmt::format("{}: {}", options_.history.size() + 1, label) : label;
  }

  std::vector<std::string> files_;
  std::vector<std::string> history_;
  std::vector<std::string> filters_;
  std::string path_;
  std::string baseline_;
  Outcome outcome_;
  ReportOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_report() { return std::make_unique<Report>(); }

}  // namespace gdn::cli
