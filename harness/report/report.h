// The report: one HTML page that holds rows, a filterable table and plots, and needs nothing else,
// neither network nor files beside it. The page's source is harness/report/; it is embedded when
// the program is built.
#pragma once

#include <string>
#include <vector>

#include "harness/rows/row.h"

namespace gdn {

struct ReportOptions {
  std::string title;          ///< empty: "Measurements of" the operations the rows are of
  std::string command;        ///< that makes the report; shown in it
  std::vector<Row> baseline;  ///< rows the drift plot holds the others to; may be empty
  /// Earlier runs, oldest first, and the one reported last; may be empty. Labels are distinct.
  struct Run {
    std::string label;
    std::vector<Row> rows;
  };
  std::vector<Run> history;
};

/// The page. Strings of rows go in as data, never as markup: whatever they hold, they are shown as
/// they are. Throws Error(bad_input) if there are no rows.
std::string report_html(const std::vector<Row>& rows, const ReportOptions& options);

/// What the page reads, as JSON without '<', so that no string in it can end a script element:
///   {"version", "command", "columns": [{"name", "help"}],
///    "rows": [[value of each column]], "baseline": [[...]],
///    "history": [{"label", "rows": [[...]]}]}
/// NaN is null, and so is a field that the row's operation does not look at.
std::string report_json(const std::vector<Row>& rows, const ReportOptions& options);

}  // namespace gdn
