// From rows to tables. A pivot puts one quantity of each row at (row label, column label). Rows
// that differ in anything else go to tables of their own, each titled with what sets it apart; two
// rows that no column tells apart are an error, never an average. Cells of rows that are not ok
// hold their status.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/rows/row.h"
#include "harness/rows/row_store.h"
#include "harness/tables/table.h"

namespace gdn {

/// Something a cell can show: any column of Row, or one of the derived quantities, such as
///   kilo_tokens_per_s, time_us, percent_of_compute, percent_of_bandwidth, workspace_mib,
///   peak_mib (the case's arrays and the plan's workspace), errors ("1.02 / 0.21 L": of each output,
///   in order, over its rounding floor; where the stored type is finer than the tokens', over the
///   limit of the arithmetic, marked L).
struct Quantity {
  std::string name;
  std::string header;  ///< "Kt/s"
  std::function<std::string(const Row&)> text;
  /// Where a cell holds several numbers: what each of them is, in order, "output / final_state".
  std::string parts = {};
  /// The same for the rows of one table, whose cells then hold the same numbers in the same places;
  /// null: it is one number whatever the rows.
  std::function<Quantity(const std::vector<const Row*>&)> in_table = nullptr;
};
/// Throws Error(bad_input) with the nearest name.
Quantity find_quantity(const std::string& name);
std::vector<std::string> quantity_names();
/// A quantity for each output that any of the rows has errors of: its error over its rounding floor
/// where it is measured in floors, else over its limit. The header says which.
std::vector<Quantity> error_quantities(const std::vector<const Row*>& rows);
/// The outputs that any of the rows has errors of, in order of first appearance.
std::vector<std::string> outputs_of(const std::vector<const Row*>& rows);

/// Something rows are told apart by: any column of Row, or
///   heads "16/32", dims "128x128", shape "16x2K" (batch x length, as problem
///   strings have it; the sequence list where ragged),
///   variant "Gated DeltaNet" (the published name of update, steps, decay and whether gates decay).
/// The text is empty where the row's operation does not look at the field: a convolution has no
/// gates.
struct Label {
  std::string name;
  std::function<std::string(const Row&)> text;
  /// Sort key beside the text: lengths and counts sort as numbers. NaN: order of first appearance.
  std::function<double(const Row&)> order;
  /// Where the text holds several numbers: what each of them is, "key/value".
  std::string parts = {};

  /// "heads (key/value)".
  std::string heading() const { return parts.empty() ? name : name + " (" + parts + ")"; }
};
Label find_label(const std::string& name);

/// "column=value" or "column=a|b": rows whose label is one of the values.
struct RowFilter {
  Label label;
  std::vector<std::string> values;
};
RowFilter parse_row_filter(const std::string& text);
std::vector<Row> filtered(const std::vector<Row>& rows, const std::vector<RowFilter>& filters);
/// With the samples of the rows that stay.
StoredRows filtered(const StoredRows& stored, const std::vector<RowFilter>& filters);

struct PivotOptions {
  std::string title;
  std::vector<std::string> row_labels;     ///< names of labels
  std::vector<std::string> column_labels;  ///< their texts are joined by a space
  std::string cell;                        ///< name of a quantity
};

/// Rows of forms without chunks stand once (without_idle_chunks). Throws Error(bad_input) if there are
/// no rows, or two rows fall on one cell.
std::vector<Table> pivot(const std::vector<Row>& rows, const PivotOptions& options);
/// The same with a quantity that is no column: options.cell is not looked at.
std::vector<Table> pivot(const std::vector<Row>& rows, const PivotOptions& options,
                         const Quantity& quantity);

/// Device, date and cache mode of the rows: the notes every table carries.
std::vector<std::string> provenance_notes(const std::vector<const Row*>& rows);
/// Their commands, a line each, and sources: Table::origin.
std::vector<std::string> origin_lines(const std::vector<const Row*>& rows);

/// Distinct texts in order of first appearance, empty ones left out.
std::vector<std::string> distinct(const std::vector<const Row*>& rows,
                                  const std::function<std::string(const Row&)>& text);
/// Whether the row's operation looks at the field with that column, and no other field replaces it:
/// what is not looked at stays at a default that means nothing. True of what is no field, and of an
/// operation nobody here knows.
bool looks_at(const Row& row, const std::string& column);
/// All sequences of the row's problem have one length.
bool is_uniform(const Row& row);
/// 2048 -> "2K"; numbers that are no multiple of 1024 as they are.
std::string binary_kilo(std::int64_t tokens);

}  // namespace gdn
