// gdnbench report RUN.h5 --out report.html: rows as one page with a table and plots.
#include "harness/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "harness/cli/command.h"
#include "harness/pivot.h"
#include "harness/row_store.h"
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
           "--out report.html";
  }

  void add_options(CLI::App& app) override {
    app.add_option("files", files_, "rows files; several are merged first")->required();
    app.add_option("--out", path_, "HTML file to write")->required();
    app.add_option("--title", options_.title, "heading of the page")->capture_default_str();
    app.add_option("--baseline", baseline_, "rows file; a plot shows this run relative to it");
    app.add_option("--where", filters_, "COLUMN=VALUE or COLUMN=A|B: only these rows; repeatable");
  }

  int run() override {
    std::vector<RowFilter> filters;
    for (const std::string& text : filters_) filters.push_back(parse_row_filter(text));
    const std::vector<Row> all = merge_rows(files_).rows;
    const std::vector<Row> rows = filtered(all, filters);
    if (rows.empty()) {
      throw_bad_input(
          fmt::format("report: none of the {} rows of {} matches", all.size(), files_[0]));
    }
    if (!baseline_.empty()) options_.baseline = read_rows(baseline_).rows;
    options_.command = command_line();
    const std::string page = report_html(rows, options_);
    std::ofstream file(path_, std::ios::binary);
    file << page;
    file.close();
    if (!file) throw_bad_input("report '" + path_ + "': cannot be written");
    fmt::print("{} rows in {} ({} kB)\n", rows.size(), path_, (page.size() + 1023) / 1024);
    return 0;
  }

 private:
  std::vector<std::string> files_;
  std::vector<std::string> filters_;
  std::string path_;
  std::string baseline_;
  ReportOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_report() { return std::make_unique<Report>(); }

}  // namespace gdn::cli
