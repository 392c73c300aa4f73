// Markdown tables of the analysis.
#pragma once

#include <string>
#include <vector>

namespace gdn::hip {

class MarkdownTable {
 public:
  explicit MarkdownTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// First column left, the others right; one line per row, ends with a newline.
  std::string text() const {
    std::string out;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      for (const std::string& cell : rows_[i]) out += "| " + cell + " ";
      out += "|\n";
      if (i > 0) continue;
      for (std::size_t c = 0; c < rows_[i].size(); ++c) out += c == 0 ? "|:--" : "|--:";
      out += "|\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace gdn::hip
