// Tables as text: Markdown, LaTeX (booktabs) and CSV from one value.
#pragma once

#include <string>
#include <vector>

namespace gdn {

struct Table {
  std::string title;               ///< one line
  std::vector<std::string> notes;  ///< under the table: device, date, conventions
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  ///< each as long as the header; "" = nothing there
  std::size_t label_columns = 1;               ///< leading columns that are labels (left-aligned)
  /// Commands and sources, which are long: said once, behind all tables.
  std::vector<std::string> origin = {};
};

enum class TableFormat { markdown, latex, csv };
/// Throws Error(bad_input) with the nearest name.
TableFormat parse_table_format(const std::string& text);

/// Markdown aligns its columns for reading as plain text, too. LaTeX is a table environment that
/// needs only \usepackage{booktabs}. CSV (RFC 4180) carries title and notes as lines that begin
/// with '#'. What tables come from stands behind the last of them, each line once; in LaTeX it is a
/// comment.
std::string render(const std::vector<Table>& tables, TableFormat format);
std::string render(const Table& table, TableFormat format);

/// A number for people: `digits` significant digits, no exponent between 1e-3 and 1e7, NaN as "".
std::string significant(double value, int digits = 4);

}  // namespace gdn
