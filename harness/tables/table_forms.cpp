#include "harness/tables/table_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "harness/operations/operation_harness.h"
#include "harness/tables/figure_notes.h"
#include "harness/tables/idle_chunks.h"
#include "harness/tables/pivot.h"
#include "harness/tables/table_relative.h"
#include "interface/error.h"

namespace gdn {
namespace {

std::vector<const Row*> pointers(const std::vector<Row>& rows) {
  std::vector<const Row*> result;
  for (const Row& row : rows) result.push_back(&row);
  return result;
}

std::vector<Row> timed(const std::vector<Row>& rows) {
  std::vector<Row> result;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(result),
               [](const Row& row) { return row.mode != kVerifyMode; });
  return result;
}

const std::vector<Row>& require_some(const std::vector<Row>& rows, const std::string& form,
                                     const std::string& expected) {
  if (rows.empty()) throw_bad_input("table form '" + form + "': no row fits; expected " + expected);
  return rows;
}

// Columns in which no row has anything to show.
void drop_empty_columns(Table& table) {
  for (std::size_t c = table.header.size(); c-- > table.label_columns;) {
    const bool empty = std::all_of(table.rows.begin(), table.rows.end(),
                                   [&](const auto& row) { return row[c].empty(); });
    if (!empty) continue;
    table.header.erase(table.header.begin() + static_cast<std::ptrdiff_t>(c));
    for (auto& row : table.rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(c));
  }
}

// What the lines of one problem show: times where any row has them, each output's error.
std::vector<Quantity> summary_quantities(const std::vector<const Row*>& rows, bool any_timed) {
  std::vector<Quantity> quantities = {find_quantity("chunk")};
  if (any_timed) {
    for (const char* name : {"time_ms", "percent_spread", "kilo_tokens_per_s", "chunkwise_tflops",
                             "percent_of_compute", "tb_per_s", "percent_of_bandwidth"}) {
      quantities.push_back(find_quantity(name));
    }
  } else {
    for (const std::string& output : outputs_of(rows)) {
      quantities.push_back(find_quantity(output + "_relative_l2"));
      quantities.back().header = output + " relative L2";
    }
  }
  for (Quantity& quantity : error_quantities(rows)) quantities.push_back(std::move(quantity));
  return quantities;
}

// Of a row that is not ok only which chunk was asked for is known. A wide spread is marked.
std::string summary_cell(const Row& row, const Quantity& quantity) {
  if (!row.ok()) {
    const std::int64_t asked = row.integer("requested_chunk");
    return quantity.name == "chunk" && asked > 0 ? std::to_string(asked) : "";
  }
  const std::string text = quantity.text(row);
  return quantity.name == "percent_spread" && is_wide(row.time_relative_spread) ? text + " *"
                                                                                : text;
}

std::vector<Table> summary_form(const std::vector<Row>& rows) {
  const bool any_timed = !timed(rows).empty();
  require_some(rows, "summary", "at least one row");
  const auto all = pointers(rows);
  std::vector<Table> tables;
  // One table for all chunks of a problem, which its column `chunk` tells apart.
  const auto section = [](const Row& row) {
    return without_chunk(row.problem) + " (" + row.mode + ")";
  };
  for (const std::string& title : distinct(all, section)) {
    std::vector<const Row*> members;
    for (const Row* row : all) {
      if (section(*row) == title) members.push_back(row);
    }
    const std::vector<Quantity> quantities = summary_quantities(members, any_timed);
    Table table;
    table.title = title;
    table.header = {"implementation"};
    std::set<std::string> shown;
    for (const Quantity& quantity : quantities) {
      table.header.push_back(quantity.header);
      shown.insert(quantity.name);
    }
    table.header.push_back("status");
    for (const Row* row : members) {
      table.rows.push_back({row->implementation});
      for (const Quantity& quantity : quantities) {
        table.rows.back().push_back(summary_cell(*row, quantity));
      }
      table.rows.back().push_back(
          row->ok() ? "" : row->status + (row->reason.empty() ? "" : ": " + row->reason));
    }
    drop_empty_columns(table);
    table.notes = figure_notes(members, shown);
    tables.push_back(std::move(table));
  }
  if (any_timed) {
    for (const std::string& name : distinct(all, [](const Row& row) { return row.operation; })) {
      tables.back().notes.push_back("TFLOP/s of " + name + " counts " +
                                    harness_of(parse_operation(name)).flops_text(0));
    }
  }
  if (!outputs_of(all).empty()) {
    tables.back().notes.push_back(
        "Errors: relative L2 of the worst unit of each output, over its rounding floor (floor) or "
        "over what the arithmetic allows (limit)");
  }
  const auto notes = provenance_notes(all);
  tables.back().notes.insert(tables.back().notes.end(), notes.begin(), notes.end());
  tables.back().origin = origin_lines(all);
  return tables;
}

std::vector<Table> throughput_form(const std::vector<Row>& rows) {
  std::vector<Row> fitting;
  for (const Row& row : timed(rows)) {
    if (is_uniform(row)) fitting.push_back(row);
  }
  require_some(fitting, "throughput", "timed rows of sequences of equal length");
  // Tables at constant tokens: one per total.
  std::vector<Table> tables;
  for (const std::string& tokens : distinct(pointers(fitting), [](const Row& row) {
         return std::to_string(row.integer("total_tokens"));
       })) {
    std::vector<Row> members;
    for (const Row& row : fitting) {
      if (std::to_string(row.integer("total_tokens")) == tokens) members.push_back(row);
    }
    const auto part = pivot(members, {"Throughput in Kt/s by batch x sequence length, " +
                                          binary_kilo(members.front().integer("total_tokens")) +
                                          " tokens (of the operation, not of a whole model)",
                                      {"implementation"},
                                      {"shape"},
                                      "kilo_tokens_per_s"});
    tables.insert(tables.end(), part.begin(), part.end());
  }
  return tables;
}

std::vector<Table> chunk_form(const std::vector<Row>& rows) {
  std::vector<Row> fitting;
  for (const Row& row : timed(rows)) {
    if (row.chunk > 0 || (!row.ok() && row.integer("requested_chunk") > 0)) {
      fitting.push_back(row);
      if (row.chunk == 0) fitting.back().chunk = row.integer("requested_chunk");
    }
  }
  require_some(fitting, "chunk", "timed rows of chunked implementations");
  std::vector<Table> tables;
  const std::vector<std::pair<const char*, const char*>> shown = {
      {"Time in ms by chunk size", "time_ms"},
      {"Workspace in MiB by chunk size", "workspace_mib"},
      {"Peak device memory in MiB (inputs, outputs, states and workspace) by chunk size",
       "peak_mib"}};
  for (const auto& [title, cell] : shown) {
    const auto part = pivot(fitting, {title, {"implementation"}, {"chunk"}, cell});
    tables.insert(tables.end(), part.begin(), part.end());
  }
  return tables;
}

std::vector<Table> heads_form(const std::vector<Row>& rows) {
  return pivot(require_some(timed(rows), "heads", "timed rows"),
               {"Throughput in Kt/s by heads (key/value)",
                {"heads"},
                {"implementation"},
                "kilo_tokens_per_s"});
}

std::vector<Table> errors_form(const std::vector<Row>& rows) {
  return pivot(rows,
               {"Error of each output, worst unit: over its rounding floor, or (L) over what the "
                "arithmetic allows",
                {"implementation", "token_dtype", "shape"},
                {"gates"},
                "errors"});
}

std::vector<Table> rows_form(const std::vector<Row>& rows) {
  Table table;
  const std::vector<RowColumn> columns = columns_of(rows);
  for (const RowColumn& column : columns) table.header.push_back(column.name);
  table.label_columns = 3;
  for (const Row& row : rows) {
    table.rows.emplace_back();
    for (const RowColumn& column : columns) {
      table.rows.back().push_back(column_text(row, column));
    }
  }
  return {table};
}

using FormFunction = std::vector<Table> (*)(const std::vector<Row>&);
const std::vector<std::pair<std::string, FormFunction>>& forms() {
  static const std::vector<std::pair<std::string, FormFunction>> list = {
      {"summary", summary_form}, {"throughput", throughput_form}, {"speedup", speedup_form},
      {"chunk", chunk_form},     {"updates", updates_form},       {"steps", steps_form},
      {"heads", heads_form},     {"errors", errors_form},         {"rows", rows_form}};
  return list;
}

}  // namespace

std::vector<std::string> table_form_names() {
  std::vector<std::string> names;
  for (const auto& [name, function] : forms()) names.push_back(name);
  return names;
}

void require_table_form(const std::string& form) {
  const std::vector<std::string> names = table_form_names();
  if (std::find(names.begin(), names.end(), form) != names.end()) return;
  throw_bad_input("table form '" + form + "' is unknown (did you mean '" +
                  nearest_name(form, names) + "'?)");
}

std::vector<Table> table_form(const std::string& form, const std::vector<Row>& rows) {
  require_table_form(form);
  for (const auto& [name, function] : forms()) {
    if (name == form) return function(name == "rows" ? rows : without_idle_chunks(rows));
  }
  return {};
}

}  // namespace gdn
