#include "harness/problems/problem_table.h"

#include <sstream>

#include "interface/error.h"

namespace gdn {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  if (!text.empty() && text.back() == separator) parts.emplace_back();
  return parts;
}

}  // namespace

std::string TextTable::place(std::size_t row) const {
  return name + ", line " + std::to_string(line_numbers.at(row));
}

TextTable TextTable::parse(const std::string& name, const std::string& text,
                           const std::vector<std::string>& columns, char separator) {
  TextTable table;
  table.name = name;
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> fields = split(line, separator);
    const std::string where = name + ", line " + std::to_string(number);
    if (table.columns.empty()) {
      if (fields != columns) {
        std::string expected;
        for (const std::string& column : columns) {
          expected += (expected.empty() ? "" : " | ") + column;
        }
        throw_bad_input(where + ": the header must be " + expected + ", separated by " +
                        (separator == ',' ? "commas" : "tabs"));
      }
      table.columns = fields;
      continue;
    }
    if (fields.size() != columns.size()) {
      throw_bad_input(where + ": " + std::to_string(fields.size()) + " fields, " +
                      std::to_string(columns.size()) + " are expected");
    }
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].empty()) throw_bad_input(where + ": '" + columns[i] + "' is empty; write - ");
    }
    table.rows.push_back(std::move(fields));
    table.line_numbers.push_back(number);
  }
  if (table.columns.empty()) throw_bad_input(name + ": no header line");
  return table;
}

std::vector<std::string> expand_alternatives(const std::string& text) {
  const auto open = text.find('{');
  if (open == std::string::npos) return {text};
  const auto close = text.find('}', open);
  if (close == std::string::npos) throw_bad_input("'" + text + "': '{' without '}'");
  std::vector<std::string> expanded;
  for (const std::string& part : split(text.substr(open + 1, close - open - 1), '|')) {
    for (const std::string& rest : expand_alternatives(text.substr(close + 1))) {
      expanded.push_back(text.substr(0, open) + part + rest);
    }
  }
  return expanded;
}

}  // namespace gdn
