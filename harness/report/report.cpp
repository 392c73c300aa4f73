#include "harness/report/report.h"

#include <cmath>
#include <map>

#include "harness/files/json.h"
#include "harness/operations/operation_harness.h"
#include "harness/rows/build_info.h"
#include "harness/tables/pivot.h"
#include "interface/error.h"

namespace gdn {
namespace report_text {  // embedded by cmake/GdnEmbedText.cmake
extern const char* const page_html;
extern const char* const page_css;
extern const char* const plot_js;
extern const char* const page_js;
}  // namespace report_text

namespace {

std::string json_value(const FieldValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return json_string(*text);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  return json_number(std::get<double>(value));
}

std::string json_rows(const std::vector<Row>& rows, const std::vector<RowColumn>& columns) {
  std::string text = "[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += i == 0 ? "[" : ",\n[";
    bool first = true;
    for (const RowColumn& column : columns) {
      const bool is_said = looks_at(rows[i], column.name);
      text += (first ? "" : ",") + (is_said ? json_value(column.get(rows[i])) : "null");
      first = false;
    }
    text += "]";
  }
  return text + "]";
}

// Every row the page holds: its columns of errors are those that any of them has.
std::vector<RowColumn> columns_of_page(const std::vector<Row>& rows, const ReportOptions& options) {
  std::vector<Row> all = rows;
  all.insert(all.end(), options.baseline.begin(), options.baseline.end());
  for (const ReportOptions::Run& run : options.history) {
    all.insert(all.end(), run.rows.begin(), run.rows.end());
  }
  return columns_of(all);
}

std::string html_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::vector<std::string> operations_of(const std::vector<Row>& rows) {
  std::vector<const Row*> all;
  for (const Row& row : rows) all.push_back(&row);
  return distinct(all, [](const Row& row) { return row.operation; });
}

std::string default_title(const std::vector<Row>& rows) {
  std::string names;
  for (const std::string& name : operations_of(rows)) names += (names.empty() ? "" : ", ") + name;
  return "Measurements of " + names;
}

// How the work of each operation is counted, a line each.
std::string count_lines(const std::vector<Row>& rows) {
  std::string lines;
  for (const std::string& name : operations_of(rows)) {
    for (const OperationHarness* harness : operation_harnesses()) {
      if (harness->operation->name != name) continue;
      lines += "<li>TFLOP/s of " + html_text(name) + " count " + html_text(harness->flops_text(0)) +
               ".</li>\n";
    }
  }
  return lines;
}

// Replaces each @@NAME@@ of the template; what is put in is not looked at again.
std::string filled(const std::string& page, const std::map<std::string, std::string>& values) {
  std::string result;
  std::size_t from = 0;
  while (true) {
    const std::size_t begin = page.find("@@", from);
    if (begin == std::string::npos) return result + page.substr(from);
    const std::size_t end = page.find("@@", begin + 2);
    result += page.substr(from, begin - from);
    result += values.at(page.substr(begin + 2, end - begin - 2));
    from = end + 2;
  }
}

}  // namespace

std::string report_json(const std::vector<Row>& rows, const ReportOptions& options) {
  const std::vector<RowColumn> held = columns_of_page(rows, options);
  std::string columns;
  for (const RowColumn& column : held) {
    columns += (columns.empty() ? "" : ",\n") + json_object({{"name", json_string(column.name)},
                                                             {"help", json_string(column.help)}});
  }
  std::string history;
  for (const ReportOptions::Run& run : options.history) {
    history += (history.empty() ? "" : ",\n") + json_object({{"label", json_string(run.label)},
                                                             {"rows", json_rows(run.rows, held)}});
  }
  const std::string plain = json_object({{"version", json_string(library_version())},
                                         {"command", json_string(options.command)},
                                         {"columns", "[" + columns + "]"},
                                         {"rows", json_rows(rows, held)},
                                         {"baseline", json_rows(options.baseline, held)},
                                         {"history", "[" + history + "]"}});
  // '<' occurs in strings alone, where its escape means the same.
  std::string safe;
  for (const char c : plain) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string report_html(const std::vector<Row>& rows, const ReportOptions& options) {
  if (rows.empty()) throw_bad_input("report: no rows");
  const std::string title = options.title.empty() ? default_title(rows) : options.title;
  return filled(report_text::page_html, {{"TITLE", html_text(title)},
                                         {"COUNTS", count_lines(rows)},
                                         {"STYLE", report_text::page_css},
                                         {"DATA", report_json(rows, options)},
                                         {"PLOT_SCRIPT", report_text::plot_js},
                                         {"PAGE_SCRIPT", report_text::page_js}});
}

}  // namespace gdn
