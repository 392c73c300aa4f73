// Tables of text that are data, not code: lines of the same columns under a header line, separated
// by tabs or by commas, '#' at a line's start for comments. Problems in them may stand for several:
//   gated_delta:heads={1/1|2/4},seq=64   is two problems.
#pragma once

#include <string>
#include <vector>

namespace gdn {

struct TextTable {
  std::string name;  ///< for error lines
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::vector<int> line_numbers;  ///< of each row

  /// Throws Error(bad_input) naming the table, the line and what was expected: other columns than
  /// `columns`, an empty field, a row of another width.
  static TextTable parse(const std::string& name, const std::string& text,
                         const std::vector<std::string>& columns, char separator = '\t');
  /// "suites/stress.tsv, line 7"
  std::string place(std::size_t row) const;
};

/// Every text that `text` stands for, in order: the first {a|b} turns slowest.
std::vector<std::string> expand_alternatives(const std::string& text);

}  // namespace gdn
