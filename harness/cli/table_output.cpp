#include "harness/cli/table_output.h"

#include <fmt/format.h>

#include <string>

#include "harness/files/json.h"

namespace gdn::cli {
namespace {

std::string json_texts(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + json_string(text);
  return "[" + list + "]";
}

std::string json_table(const Table& table) {
  std::string rows;
  for (const auto& row : table.rows) rows += (rows.empty() ? "" : ",\n  ") + json_texts(row);
  return json_object({{"title", json_string(table.title)},
                      {"notes", json_texts(table.notes)},
                      {"origin", json_texts(table.origin)},
                      {"header", json_texts(table.header)},
                      {"label_columns", std::to_string(table.label_columns)},
                      {"rows", "[" + rows + "]"}});
}

}  // namespace

void print_tables(const std::vector<Table>& tables, TableFormat format, bool json) {
  if (!json) {
    fmt::print("{}", render(tables, format));
    return;
  }
  std::string text;
  for (const Table& table : tables) text += (text.empty() ? "" : ",\n") + json_table(table);
  fmt::print("[{}]\n", text);
}

}  // namespace gdn::cli
