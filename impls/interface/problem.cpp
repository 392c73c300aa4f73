#include "interface/problem.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "interface/error.h"
#include "interface/index_array.h"
#include "interface/parse_number.h"

namespace gdn {
namespace {

constexpr std::int64_t kMostChannels = std::int64_t{1} << 28;  // about as many as heads can have

}  // namespace

void Problem::set_gate_encoding(GateEncoding encoding) {
  gate_encoding = encoding;
  if (encoding != GateEncoding::bounded) decay_bound = Problem().decay_bound;
}

double Problem::effective_scale() const {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(key_head_dim)));
}

std::int64_t Problem::conv_channels() const {
  if (channels != 0) return channels;
  return 2 * num_key_heads * key_head_dim + num_value_heads * value_head_dim;
}

std::int64_t Problem::window_places() const {
  return window_length != 0 ? window_length : conv_width - 1;
}

bool Problem::reads_conv_window() const {
  return conv_window == ConvWindow::carried || conv_window == ConvWindow::read;
}

bool Problem::writes_conv_window() const {
  return conv_window == ConvWindow::carried || conv_window == ConvWindow::written;
}

std::int64_t Problem::state_row_stride() const {
  return num_value_heads * key_head_dim * value_head_dim + pool_row_padding;
}

std::int64_t Problem::num_pool_rows() const {
  if (pool_rows != 0) return pool_rows;
  if (output_slots == OutputSlots::other) return 2 * num_sequences() + 3;
  return num_sequences() + (slots == SlotMap::identity ? 0 : 3);
}

void Problem::set_pool_rows(std::int64_t rows) {
  pool_rows = 0;
  if (num_pool_rows() != rows) pool_rows = rows;
}

std::int64_t Problem::least_pool_rows() const {
  if (pool_rows != 0) return pool_rows;
  return slots == SlotMap::identity ? num_sequences() : std::min<std::int64_t>(1, num_sequences());
}

std::string Problem::to_string() const {
  static const Problem defaults;
  std::string text = operation->name;
  char separator = ':';
  for (const ProblemField& field : problem_fields()) {
    if (is_replaced(field, *this)) continue;
    const std::string value = field.get(*this);
    if (!field.always_printed && value == field.get(defaults)) continue;
    text += separator + field.key + "=" + value;
    separator = ',';
  }
  return text;
}

Problem Problem::parse(std::string_view text) {
  Problem problem;
  const auto colon = text.find(':');
  problem.operation = parse_operation(text.substr(0, colon));
  std::set<std::string> given;
  std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw_bad_input("problem: '" + std::string(item) + "' is not of the form field=value");
    }
    const std::string key(item.substr(0, equals));
    const ProblemField& field = problem_field(key);
    if (!given.insert(key).second) throw_bad_input("problem: field '" + key + "' is given twice");
    field.set(problem, item.substr(equals + 1));
  }
  problem.validate();
  return problem;
}

void Problem::validate() const {
  const auto require = [](bool condition, const std::string& message) {
    if (!condition) throw_bad_input("problem: " + message);
  };
  require(num_key_heads >= 1 && num_value_heads >= 1, "heads: Hk and Hv must be at least 1");
  require(num_value_heads % num_key_heads == 0,
          "heads=" + std::to_string(num_key_heads) + "/" + std::to_string(num_value_heads) +
              ": the value heads must be a multiple of the key heads");
  require(key_head_dim >= 1 && value_head_dim >= 1, "dim: Dk and Dv must be at least 1");
  require(key_head_dim <= 4096 && value_head_dim <= 4096, "dim: Dk and Dv must be at most 4096");
  require(num_value_heads <= 65536, "heads: at most 65536 value heads");
  require(channels >= 0 && channels <= kMostChannels, "channels=" + std::to_string(channels) +
                                                          ": expected auto or 1.." +
                                                          std::to_string(kMostChannels));
  require(!sequences.lengths.empty(), "seq: at least one sequence is needed");
  require(total_tokens() <= kLargestIndex && num_sequences() < kLargestIndex,
          "seq: " + std::to_string(total_tokens()) + " tokens of " +
              std::to_string(num_sequences()) + " sequences, expected fewer than 2^31");
  require(pool_rows <= kLargestIndex,
          "pool_rows=" + std::to_string(pool_rows) + ": expected fewer than 2^31");
  require(steps >= 1 && steps <= 16, "steps=" + std::to_string(steps) + ": expected 1..16");
  require(conv_width >= 2 && conv_width <= 15,
          "width=" + std::to_string(conv_width) + ": expected 2..15");
  require(pool_row_padding >= 0, "pool_pad: must not be negative");
  require(pool_rows >= 0, "pool_rows: must not be negative");
  require(pool_rows == 0 || slots != SlotMap::identity || pool_rows >= num_sequences(),
          "pool_rows=" + std::to_string(pool_rows) + ": expected a row for each of the " +
              std::to_string(num_sequences()) + " sequences, or slots");
  require(chunk >= 0, "chunk: must not be negative");
  require(!scale || std::isfinite(*scale), "scale: must be finite");
  require(decay_bound > 0 && decay_bound <= 5,
          "bound=" + shortest_text(decay_bound) + ": expected a number above 0, at most 5");
  // Kernels add it in float32: there it must neither vanish nor be infinite.
  require(norm_eps >= 1.17549435e-38 && norm_eps <= 1e30,
          "norm_eps=" + shortest_text(norm_eps) + ": expected 1.2e-38..1e30");
  require(gate_range.low <= gate_range.high && gate_range.high <= 0,
          "gates: LOW..HIGH must rise and not pass 0");
  require(0 <= beta_range.low && beta_range.low <= beta_range.high && beta_range.high <= 2,
          "betas: LOW..HIGH must rise, within 0..2");
  require(case_file.find(',') == std::string::npos, "case: a comma in the file name");
  static const Problem defaults;
  for (const ProblemField& field : problem_fields()) {
    const std::string value = field.get(*this);
    if (value == field.get(defaults)) continue;
    require(operation->has_field(field.key),
            field.key + "=" + value + ": " + operation->name + " does not look at " + field.key);
    if (!is_replaced(field, *this)) continue;
    const std::string& other = field.replaced_by;
    throw_bad_input("problem: " + field.key + "=" + value + " stands beside " + other + "=" +
                    problem_field(other).get(*this) + "; expected one of the two");
  }
  if (operation->validate != nullptr) operation->validate(*this);
}

}  // namespace gdn
