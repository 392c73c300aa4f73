#include "harness/report.h"

#include <cmath>
#include <map>

#include "harness/build_info.h"
#include "harness/json.h"
#include "interface/error.h"

namespace gdn {
namespace report_text {  // embedded by cmake/GdnEmbedText.cmake
extern const char* const page_html;
extern const char* const page_css;
extern const char* const plot_js;
extern const char* const page_js;
}  // namespace report_text

namespace {

std::string json_value(const Row& row, const RowColumn& column) {
  if (const auto* text = std::get_if<std::string Row::*>(&column.member)) {
    return json_string(row.**text);
  }
  if (const auto* integer = std::get_if<std::int64_t Row::*>(&column.member)) {
    return std::to_string(row.**integer);
  }
  return json_number(row.*std::get<double Row::*>(column.member));
}

std::string json_rows(const std::vector<Row>& rows) {
  std::string text = "[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += i == 0 ? "[" : ",\n[";
    bool first = true;
    for (const RowColumn& column : row_columns()) {
      text += (first ? "" : ",") + json_value(rows[i], column);
      first = false;
    }
    text += "]";
  }
  return text + "]";
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
  std::string columns;
  for (const RowColumn& column : row_columns()) {
    columns += (columns.empty() ? "" : ",\n") + json_object({{"name", json_string(column.name)},
                                                             {"help", json_string(column.help)}});
  }
  std::string history;
  for (const ReportOptions::Run& run : options.history) {
    history += (history.empty() ? "" : ",\n") +
               json_object({{"label", json_string(run.label)}, {"rows", json_rows(run.rows)}});
  }
  const std::string plain = json_object({{"version", json_string(library_version())},
                                         {"command", json_string(options.command)},
                                         {"columns", "[" + columns + "]"},
                                         {"rows", json_rows(rows)},
                                         {"baseline", json_rows(options.baseline)},
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
  return filled(report_text::page_html, {{"TITLE", html_text(options.title)},
                                         {"STYLE", report_text::page_css},
                                         {"DATA", report_json(rows, options)},
                                         {"PLOT_SCRIPT", report_text::plot_js},
                                         {"PAGE_SCRIPT", report_text::page_js}});
}

}  // namespace gdn
