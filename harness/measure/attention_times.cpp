#include "harness/measure/attention_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include "harness/problems/problem_table.h"
#include "interface/error.h"
#include "interface/parse_number.h"

namespace gdn {
namespace {

// FIELDS of scripts/peers/time_attention.py.
const std::vector<std::string>& columns() {
  static const std::vector<std::string> names = {"device",
                                                 "kernel",
                                                 "query_heads",
                                                 "kv_heads",
                                                 "head_dim",
                                                 "window",
                                                 "sequences",
                                                 "dtype",
                                                 "forward_ms",
                                                 "forward_q1_ms",
                                                 "forward_q3_ms",
                                                 "forward_mode",
                                                 "forward_backward_ms",
                                                 "forward_backward_q1_ms",
                                                 "forward_backward_q3_ms",
                                                 "forward_backward_mode",
                                                 "error"};
  return names;
}

/// The fields of one line by their columns, with errors that name the line and the column.
class Line {
 public:
  Line(const TextTable& table, std::size_t row) : table_(table), row_(row) {}

  const std::string& text(const std::string& column) const {
    const auto at = std::find(columns().begin(), columns().end(), column) - columns().begin();
    return table_.rows[row_][static_cast<std::size_t>(at)];
  }
  std::int64_t integer(const std::string& column, std::int64_t lowest) const {
    return parse_integer(text(column), place(column), lowest);
  }
  double time_ms(const std::string& column) const {
    const std::string expected = "a time in milliseconds above 0";
    const std::string whole = place(column) + ": " + text(column);
    const double value = parse_number(text(column), whole, expected);
    if (!(value > 0) || std::isinf(value)) throw_bad_input("'" + whole + "'; expected " + expected);
    return value;
  }
  std::string place(const std::string& column) const { return table_.place(row_) + ", " + column; }

 private:
  const TextTable& table_;
  std::size_t row_;
};

AttentionTime time_of(const Line& line) {
  AttentionTime time;
  time.device = line.text("device");
  time.kernel = line.text("kernel");
  time.shape = {line.integer("query_heads", 1), line.integer("kv_heads", 1),
                line.integer("head_dim", 1), line.integer("window", 0)};
  try {
    time.sequences = SequenceLengths::parse(line.text("sequences"));
  } catch (const Error& error) {
    throw_bad_input(line.place("sequences") + ": " + error.what());
  }
  time.dtype = parse_dtype(line.text("dtype"), line.place("dtype"));
  time.forward_ms = line.time_ms("forward_ms");
  time.forward_backward_ms = line.time_ms("forward_backward_ms");
  return time;
}

}  // namespace

std::string AttentionShape::to_string() const {
  return fmt::format("{}/{}:{}:{}", query_heads, key_value_heads, head_dim, window);
}

AttentionTimes AttentionTimes::parse(const std::string& name, const std::string& text) {
  const TextTable table = TextTable::parse(name, text, columns(), ',');
  AttentionTimes times;
  times.name_ = name;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    times.lines_.push_back(time_of(Line(table, row)));
  }
  if (times.lines_.empty()) throw_bad_input(name + ": no times below the header line");
  return times;
}

AttentionTimes AttentionTimes::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad()) {
    throw_bad_input(path + ": cannot be read; a file of times of attention is expected");
  }
  return parse(path, text);
}

std::vector<std::string> AttentionTimes::devices() const {
  std::vector<std::string> names;
  for (const AttentionTime& line : lines_) {
    if (std::find(names.begin(), names.end(), line.device) == names.end()) {
      names.push_back(line.device);
    }
  }
  return names;
}

const AttentionTime* AttentionTimes::quickest(const std::string& device,
                                              const AttentionShape& shape,
                                              const SequenceLengths& sequences, DType dtype,
                                              Pass pass) const {
  const AttentionTime* found = nullptr;
  for (const AttentionTime& line : lines_) {
    if (line.device != device || line.shape != shape || line.sequences != sequences ||
        line.dtype != dtype) {
      continue;
    }
    if (!found || line.time_ms(pass) < found->time_ms(pass)) found = &line;
  }
  return found;
}

}  // namespace gdn
