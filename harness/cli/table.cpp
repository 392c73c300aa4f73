// gdnbench table: rows files to Markdown, LaTeX and CSV.
#include <fmt/format.h>

#include <cstdio>

#include "harness/cli/command.h"
#include "harness/grid.h"
#include "harness/pivot.h"
#include "harness/row_store.h"
#include "harness/table_forms.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " | ") + name;
  return text;
}

class TableCommand : public Command {
 public:
  std::string name() const override { return "table"; }
  std::string help() const override {
    return "tables from rows files: Markdown, LaTeX (booktabs) or CSV";
  }
  std::string example() const override {
    return "gdnbench table results.h5 --form throughput --format latex\n"
           "  gdnbench table results.h5 --rows heads --columns shape --cell time_ms "
           "--where implementation=cuda/fused";
  }

  void add_options(CLI::App& app) override {
    app.add_option("files", files_, "rows files; several are merged first")->required();
    app.add_option("--form", form_,
                   listed(table_form_names()) +
                       " (default: summary; without effect beside --rows and --columns)");
    app.add_option("--rows", rows_, "pivot: columns of the rows that label lines, comma list");
    app.add_option("--columns", columns_, "pivot: columns that label columns, comma list");
    app.add_option("--cell", cell_,
                   "pivot: what a cell shows: time_ms, kilo_tokens_per_s, percent_of_compute, "
                   "error_in_floors or any column of the rows");
    app.add_option("--where", filters_, "COLUMN=VALUE or COLUMN=A|B: only these rows; repeatable");
    app.add_option("--title", title_, "pivot: title");
    app.add_option("--format", format_, "markdown | latex | csv")->capture_default_str();
  }

  int run() override {
    const TableFormat format = parse_table_format(format_);
    std::vector<RowFilter> filters;
    for (const std::string& text : filters_) filters.push_back(parse_row_filter(text));
    const std::vector<Row> all =
        files_.size() == 1 ? read_rows(files_[0]).rows : merge_rows(files_).rows;
    const std::vector<Row> rows = filtered(all, filters);
    if (rows.empty()) {
      throw_bad_input(
          fmt::format("table: none of the {} rows of {} matches", all.size(), files_[0]));
    }
    if (rows_.empty() != columns_.empty()) {
      throw_bad_input("table: --rows and --columns go together");
    }
    const std::vector<Table> tables =
        rows_.empty() ? table_form(form_.empty() ? "summary" : form_, rows)
                      : pivot(rows, {title_, split_values("--rows", rows_),
                                     split_values("--columns", columns_), cell_});
    for (std::size_t i = 0; i < tables.size(); ++i) {
      fmt::print("{}{}", i == 0 ? "" : "\n", render(tables[i], format));
    }
    return 0;
  }

 private:
  std::vector<std::string> files_;
  std::vector<std::string> filters_;
  std::string form_;
  std::string rows_;
  std::string columns_;
  std::string cell_ = "time_ms";
  std::string title_;
  std::string format_ = "markdown";
};

}  // namespace

std::unique_ptr<Command> make_table() { return std::make_unique<TableCommand>(); }

}  // namespace gdn::cli
