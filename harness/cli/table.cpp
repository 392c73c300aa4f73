// gdnbench table: rows files to Markdown, LaTeX and CSV; with --preset the rows are measured first.
#include <fmt/format.h>

#include <memory>
#include <set>

#include "harness/cli/axes.h"
#include "harness/cli/command.h"
#include "harness/cli/measure_options.h"
#include "harness/cli/progress.h"
#include "harness/cli/table_output.h"
#include "harness/cli/usage.h"
#include "harness/problems/grid.h"
#include "harness/rows/build_info.h"
#include "harness/rows/row_store.h"
#include "harness/sweep/sweep.h"
#include "harness/tables/pivot.h"
#include "harness/tables/table_forms.h"
#include "harness/tables/table_presets.h"
#include "interface/error.h"
#include "interface/select.h"

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
    return "tables from rows files, or measured on the spot: Markdown, LaTeX (booktabs) or CSV";
  }
  std::string example() const override {
    return "gdnbench table --preset throughput --device cuda --format latex\n"
           "  gdnbench table --preset speedup --device cpu --out speedup.h5\n"
           "  gdnbench table results.h5 --form throughput --format latex\n"
           "  gdnbench table results.h5 --rows heads --columns shape --cell time_ms "
           "--where implementation=cuda/fused\n"
           "\n"
           "A preset is a sweep and the table it fills; axes given override its own. With --out "
           "its rows\nare kept, and made only where they are not in the file yet. Exit code 1: a "
           "row failed its check.";
  }

  void add_options(CLI::App& app) override {
    app_ = &app;
    app.add_option("files", files_, "rows files; several are merged first");
    std::vector<std::string> presets;
    for (const TablePreset& preset : table_presets()) presets.push_back(preset.name);
    app.add_option("--preset", preset_, "measure first, then print: " + listed(presets));
    app.add_option("--out", path_, "with --preset: rows file to keep, and to resume from");
    app.add_option("--form", form_,
                   listed(table_form_names()) +
                       " (default: summary; without effect beside --rows and --columns)");
    app.add_option("--rows", rows_, "pivot: columns of the rows that label lines, comma list");
    app.add_option("--columns", columns_, "pivot: columns that label columns, comma list");
    app.add_option("--cell", cell_,
                   "pivot: what a cell shows: time_ms, kilo_tokens_per_s, percent_of_compute, "
                   "errors or any column of the rows");
    app.add_option("--where", filters_, "COLUMN=VALUE or COLUMN=A|B: only these rows; repeatable");
    app.add_option("--title", title_, "pivot: title");
    app.add_option("--format", format_, "markdown | latex | csv")->capture_default_str();
    app.add_flag("--quiet", quiet_, "no progress line");
    app.add_flag("--json", json_, "JSON instead of a format for people");
    measure_.add_to(app);
    axes_.add_axes_to(app);
  }

  int run() override {
    const TableFormat format = parse_table_format(format_);
    if (files_.empty() == preset_.empty()) {
      throw_bad_input("table: expected rows files or --preset, one of the two");
    }
    if (preset_.empty()) {
      require_only(*app_,
                   {"files", "--form", "--rows", "--columns", "--cell", "--where", "--title",
                    "--format", "--quiet", "--json"},
                   "goes with --preset; rows files are printed as they are");
    }
    const PivotOptions pivot_options = checked_pivot();
    if (!form_.empty()) require_table_form(form_);
    std::vector<RowFilter> filters;
    for (const std::string& text : filters_) filters.push_back(parse_row_filter(text));
    bool failed = false;
    const std::vector<Row> all = preset_.empty() ? stored_rows() : measured_rows(failed);
    const std::vector<Row> rows = filtered(all, filters);
    if (rows.empty()) {
      throw_bad_input(fmt::format("table: none of the {} rows of {} matches", all.size(),
                                  preset_.empty() ? files_[0] : preset_));
    }
    print_tables(rows_.empty() ? table_form(form_name(), rows) : pivot(rows, pivot_options), format,
                 json_);
    return failed ? 1 : 0;
  }

 private:
  // What --rows, --columns and --cell ask for, refused here where it cannot be had: a preset is
  // measured for hours before its rows are put into a table. Empty without --rows.
  PivotOptions checked_pivot() const {
    if (rows_.empty() != columns_.empty()) {
      throw_bad_input("table: --rows and --columns go together");
    }
    if (rows_.empty()) {
      for (const std::string& name : options_given(*app_)) {
        if (name == "--cell" || name == "--title") {
          throw_bad_input(name +
                          ": goes with --rows and --columns; without them a form is printed");
        }
      }
      return {};
    }
    PivotOptions options{title_, split_values("--rows", rows_), split_values("--columns", columns_),
                         cell_};
    for (const std::string& name : options.row_labels) find_label(name);
    for (const std::string& name : options.column_labels) find_label(name);
    find_quantity(cell_);
    return options;
  }

  std::string form_name() const {
    if (!form_.empty()) return form_;
    return preset_.empty() ? "summary" : find_table_preset(preset_).form;
  }

  std::vector<Row> stored_rows() const {
    return files_.size() == 1 ? read_rows(files_[0]).rows : merge_rows(files_).rows;
  }

  // Runs the preset's sweep; the rows of it alone, also where the file holds others.
  std::vector<Row> measured_rows(bool& failed) {
    const TablePreset& preset = find_table_preset(preset_);
    const auto device = open_device(measure_.device());
    const auto problems = table_problems(preset, device->info(), axes_.values());
    auto implementations = choose_implementations(measure_.implementations(), device->info());
    if (measure_.implementations().empty()) {
      implementations = implementations_of(preset, implementations);
    }
    SweepOptions options;
    options.measure = measure_.options();
    options.time = preset.timed;
    options.command = command_line();

    RowMemorySink memory;
    std::unique_ptr<RowFileSink> file;
    if (!path_.empty()) file = std::make_unique<RowFileSink>(path_, false);
    RowSink& sink = file ? static_cast<RowSink&>(*file) : memory;
    std::set<std::string> wanted;  // keys of the sweep
    const std::string mode = options.time ? name_of(options.measure.mode) : kVerifyMode;
    for (const Problem& problem : problems) {
      for (const Implementation* implementation : implementations) {
        wanted.insert(problem.to_string() + " " + implementation->description().name + " " + mode);
      }
    }
    const SweepTotals totals =
        sweep_with_progress(problems, implementations, *device, options, sink, quiet_ || json_, 30);
    failed = totals.failed > 0;
    std::vector<Row> rows;
    for (const Row& row : file ? read_rows(path_).rows : memory.stored().rows) {
      const bool here = row.device == device->info().name && row.source_hash == source_hash();
      if (here && wanted.count(row.key()) > 0 && row.status != row_status::kSkipped) {
        rows.push_back(row);
      }
    }
    return rows;
  }

  const CLI::App* app_ = nullptr;
  std::vector<std::string> files_;
  std::vector<std::string> filters_;
  std::string preset_;
  std::string path_;
  std::string form_;
  std::string rows_;
  std::string columns_;
  std::string cell_ = "time_ms";
  std::string title_;
  std::string format_ = "markdown";
  bool quiet_ = false;
  bool json_ = false;
  AxisOptions axes_;
  MeasureCliOptions measure_;
};

}  // namespace

std::unique_ptr<Command> make_table() { return std::make_unique<TableCommand>(); }

}  // namespace gdn::cli
