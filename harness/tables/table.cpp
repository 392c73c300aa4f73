#include "harness/tables/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "interface/error.h"
#include "interface/problem.h"

namespace gdn {
namespace {

void require_rectangular(const Table& table) {
  for (const auto& row : table.rows) {
    if (row.size() != table.header.size()) {
      throw_bad_input(fmt::format("table '{}': a row of {} cells under {} headers", table.title,
                                  row.size(), table.header.size()));
    }
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// ---- Markdown

std::string markdown_cell(const std::string& text) {
  return text.empty() ? "-" : replaced(replaced(text, "|", "\\|"), "\n", " ");
}

std::string markdown_line(const Table& table, const std::vector<std::string>& cells,
                          const std::vector<std::size_t>& widths) {
  std::string line = "|";
  for (std::size_t c = 0; c < cells.size(); ++c) {
    line += c < table.label_columns ? fmt::format(" {:<{}} |", cells[c], widths[c])
                                    : fmt::format(" {:>{}} |", cells[c], widths[c]);
  }
  return line + "\n";
}

std::string markdown(const Table& table) {
  std::vector<std::vector<std::string>> cells;
  for (const auto& row : table.rows) {
    cells.emplace_back();
    for (const std::string& cell : row) cells.back().push_back(markdown_cell(cell));
  }
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.header.size(); ++c) {
    widths.push_back(std::max<std::size_t>(3, table.header[c].size()));
    for (const auto& row : cells) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text = table.title.empty() ? "" : "**" + table.title + "**\n\n";
  text += markdown_line(table, table.header, widths);
  text += "|";
  for (std::size_t c = 0; c < widths.size(); ++c) {
    text += c < table.label_columns ? ":" + std::string(widths[c] + 1, '-') + "|"
                                    : std::string(widths[c] + 1, '-') + ":|";
  }
  text += "\n";
  for (const auto& row : cells) text += markdown_line(table, row, widths);
  if (!table.notes.empty()) text += "\n";
  for (const std::string& note : table.notes) text += note + "  \n";
  return text;
}

// ---- LaTeX

std::string latex_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}':
        result += '\\';
        result += c;
        break;
      case '~':
        result += "\\textasciitilde{}";
        break;
      case '^':
        result += "\\textasciicircum{}";
        break;
      case '\\':
        result += "\\textbackslash{}";
        break;
      case '<':
        result += "\\textless{}";
        break;
      case '>':
        result += "\\textgreater{}";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string latex_line(const std::vector<std::string>& cells) {
  std::string line = "  ";
  for (std::size_t c = 0; c < cells.size(); ++c) {
    line += (c == 0 ? "" : " & ") + (cells[c].empty() ? std::string("--") : latex_text(cells[c]));
  }
  return line + " \\\\\n";
}

std::string latex(const Table& table) {
  std::string text = "\\begin{table}\n\\centering\n";
  std::string caption = latex_text(table.title) + (table.title.empty() ? "" : ".");
  for (const std::string& note : table.notes) caption += " " + latex_text(note) + ".";
  if (!caption.empty()) text += "\\caption{" + caption + "}\n";
  text += "\\begin{tabular}{" + std::string(table.label_columns, 'l') +
          std::string(table.header.size() - table.label_columns, 'r') + "}\n\\toprule\n";
  text += latex_line(table.header) + "\\midrule\n";
  for (const auto& row : table.rows) text += latex_line(row);
  return text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n";
}

// ---- CSV

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return "\"" + replaced(text, "\"", "\"\"") + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) line += (c == 0 ? "" : ",") + csv_cell(cells[c]);
  return line + "\n";
}

std::string csv(const Table& table) {
  std::string text;
  if (!table.title.empty()) text += "# " + replaced(table.title, "\n", " ") + "\n";
  for (const std::string& note : table.notes) text += "# " + replaced(note, "\n", " ") + "\n";
  text += csv_line(table.header);
  for (const auto& row : table.rows) text += csv_line(row);
  return text;
}

std::string one_line(const std::string& text) { return replaced(text, "\n", " "); }

std::string of_table(const Table& table, TableFormat format) {
  require_rectangular(table);
  switch (format) {
    case TableFormat::markdown:
      return markdown(table);
    case TableFormat::latex:
      return latex(table);
    case TableFormat::csv:
      return csv(table);
  }
  throw_bad_input("TableFormat holds a value without a name");
}

std::string origin_line(const std::string& text, TableFormat format) {
  switch (format) {
    case TableFormat::markdown:
      return one_line(text) + "  \n";
    case TableFormat::latex:
      return "% " + one_line(text) + "\n";
    case TableFormat::csv:
      return "# " + one_line(text) + "\n";
  }
  throw_bad_input("TableFormat holds a value without a name");
}

}  // namespace

TableFormat parse_table_format(const std::string& text) {
  if (text == "markdown") return TableFormat::markdown;
  if (text == "latex") return TableFormat::latex;
  if (text == "csv") return TableFormat::csv;
  throw_bad_input("table format '" + text + "' is unknown (did you mean '" +
                  nearest_name(text, {"markdown", "latex", "csv"}) + "'?)");
}

std::string render(const std::vector<Table>& tables, TableFormat format) {
  std::string text;
  std::vector<std::string> origin;
  for (const Table& table : tables) {
    text += (text.empty() ? "" : "\n") + of_table(table, format);
    for (const std::string& line : table.origin) {
      if (std::find(origin.begin(), origin.end(), line) == origin.end()) origin.push_back(line);
    }
  }
  if (!origin.empty() && format == TableFormat::markdown) text += "\n";
  for (const std::string& line : origin) text += origin_line(line, format);
  return text;
}

std::string render(const Table& table, TableFormat format) {
  return render(std::vector<Table>{table}, format);
}

std::string significant(double value, int digits) {
  if (std::isnan(value)) return "";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == 0) return "0";
  const double magnitude = std::abs(value);
  if (magnitude < 1e-3 || magnitude >= 1e7)
    return fmt::format("{:.{}e}", value, std::max(1, digits - 2));
  const int decimals = digits - 1 - static_cast<int>(std::floor(std::log10(magnitude)));
  return fmt::format("{:.{}f}", value, std::max(0, decimals));
}

}  // namespace gdn
