// gdnbench rows: rows files merged, filtered and exported.
#include <fmt/format.h>

#include "harness/cli/command.h"
#include "harness/files/json.h"
#include "harness/problems/grid.h"
#include "harness/rows/row_store.h"
#include "harness/rows/rows_file_lock.h"
#include "harness/tables/pivot.h"
#include "harness/tables/table.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

std::string json_value(const Row& row, const RowColumn& column) {
  const FieldValue value = column.get(row);
  if (const auto* real = std::get_if<double>(&value)) return json_number(*real);
  const std::string text = value_text(value);
  return column.is_text() ? json_string(text) : text;
}

class Rows : public Command {
 public:
  std::string name() const override { return "rows"; }
  std::string help() const override {
    return "rows files merged and filtered: to another rows file, as CSV or as JSON";
  }
  std::string example() const override {
    return "gdnbench rows results.h5 --where status=ok --columns problem,implementation,time_ms\n"
           "  gdnbench rows part1.h5 part2.h5 --where mode=cold --out cold.h5\n"
           "  gdnbench rows results.h5 --json\n"
           "\n"
           "Of rows with one problem, implementation, mode and device the latest stays. A rows "
           "file keeps the\nsamples. In Python:\n"
           "  rows = pandas.DataFrame(h5py.File(\"results.h5\")[\"rows\"][()])\n"
           "  rows = rows.apply(lambda c: c.str.decode(\"utf-8\") if c.dtype == object else c)";
  }

  void add_options(CLI::App& app) override {
    app.add_option("files", files_, "rows files");
    app.add_option("--where", filters_, "COLUMN=VALUE or COLUMN=A|B: only these rows; repeatable");
    app.add_option("--columns", columns_, "only these columns, comma list; default: all")
        ->delimiter(',');
    app.add_option("--out", path_, "rows file to write instead of printing; replaced");
    app.add_flag("--list-columns", list_, "the columns and what they hold, instead of rows");
    app.add_flag("--quiet", quiet_, "with --out: nothing on stdout");
    app.add_flag("--json", json_, "JSON instead of CSV");
    app.add_flag("--json-schema", json_schema_,
                 "the JSON schema of what --json prints of every column, instead of rows");
  }

  int run() override {
    if (json_schema_) {
      fmt::print("{}\n", rows_json_schema());
      return 0;
    }
    if (files_.empty()) throw_bad_input("rows: expected a rows file");
    if (list_) return list_columns();
    std::vector<RowFilter> filters;
    for (const std::string& text : filters_) filters.push_back(parse_row_filter(text));
    std::unique_ptr<RowsFileLock> lock;
    if (!path_.empty()) lock = std::make_unique<RowsFileLock>(path_);
    const StoredRows all = files_.size() == 1 ? read_rows(files_[0]) : merge_rows(files_);
    const StoredRows kept = filtered(all, filters);
    if (path_.empty()) {
      print(kept.rows);
      return 0;
    }
    if (!columns_.empty()) throw_bad_input("rows: --columns goes with printing, not with --out");
    write_rows(path_, kept);
    if (json_) {
      fmt::print("{}\n", json_object({{"file", json_string(path_)},
                                      {"rows", std::to_string(kept.rows.size())},
                                      {"of", std::to_string(all.rows.size())}}));
    } else if (!quiet_) {
      fmt::print("{} of {} rows in {}\n", kept.rows.size(), all.rows.size(), path_);
    }
    return 0;
  }

 private:
  int list_columns() const {
    std::string objects;
    for (const RowColumn& column : known_columns()) {
      if (json_) {
        objects +=
            (objects.empty() ? "" : ",\n") +
            json_object({{"name", json_string(column.name)}, {"help", json_string(column.help)}});
      } else {
        fmt::print("{:<30} {}\n", column.name, column.help);
      }
    }
    if (json_) fmt::print("[\n{}\n]\n", objects);
    return 0;
  }

  std::vector<RowColumn> chosen_columns(const std::vector<Row>& rows) const {
    if (columns_.empty()) return columns_of(rows);
    std::vector<RowColumn> chosen;
    for (const std::string& name : columns_) chosen.push_back(find_row_column(name));
    return chosen;
  }

  void print(const std::vector<Row>& rows) const {
    const std::vector<RowColumn> columns = chosen_columns(rows);
    if (json_) {
      std::string objects;
      for (const Row& row : rows) {
        std::vector<std::pair<std::string, std::string>> members;
        for (const RowColumn& column : columns) {
          members.emplace_back(column.name, json_value(row, column));
        }
        objects += (objects.empty() ? "" : ",\n") + json_object(members);
      }
      fmt::print("[\n{}\n]\n", objects);
      return;
    }
    Table table;
    for (const RowColumn& column : columns) table.header.push_back(column.name);
    for (const Row& row : rows) {
      table.rows.emplace_back();
      for (const RowColumn& column : columns) table.rows.back().push_back(column_text(row, column));
    }
    fmt::print("{}", render(table, TableFormat::csv));
  }

  std::vector<std::string> files_;
  std::vector<std::string> filters_;
  std::vector<std::string> columns_;
  std::string path_;
  bool list_ = false;
  bool quiet_ = false;
  bool json_ = false;
  bool json_schema_ = false;
};

}  // namespace

std::unique_ptr<Command> make_rows() { return std::make_unique<Rows>(); }

}  // namespace gdn::cli
