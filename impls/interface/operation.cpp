#include "interface/operation.h"

#include <algorithm>

#include "interface/error.h"
#include "interface/nearest_name.h"
#include "interface/problem.h"

namespace gdn {
namespace {

template <typename Matches>
const Operand* find_operand(const std::vector<Operand>& operands, const Matches& matches) {
  const auto found = std::find_if(operands.begin(), operands.end(), matches);
  return found == operands.end() ? nullptr : &*found;
}

bool holds(bool (*condition)(const Problem&), const Problem& problem) {
  return condition == nullptr || condition(problem);
}

// Keys of the fields every operation has.
const std::vector<std::string>& common_fields() {
  static const std::vector<std::string> fields = {"heads", "dim",   "seq", "dtype",
                                                  "seed",  "chunk", "case"};
  return fields;
}

}  // namespace

bool is_common_field(std::string_view key) {
  const auto& keys = common_fields();
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

Operation::Operation() : Operation(operations().front()) {}

const std::string& to_string(Operation operation) { return operation->name; }

Operation parse_operation(std::string_view text) {
  std::vector<std::string> names;
  std::string expected;
  for (const Operation operation : operations()) {
    if (operation->name == text) return operation;
    names.push_back(operation->name);
    expected += (expected.empty() ? "" : "|") + operation->name;
  }
  throw_bad_input("operation: unknown value '" + std::string(text) + "'; expected " + expected +
                  " (did you mean '" + nearest_name(text, names) + "'?)");
}

const Operand* OperationSchema::find(std::string_view operand) const {
  return find_operand(operands, [&](const Operand& o) { return o.name == operand; });
}

const Operand* OperationSchema::find_output(std::string_view output_name) const {
  return find_operand(
      operands, [&](const Operand& o) { return o.is_output() && o.output_name() == output_name; });
}

const Operand& OperationSchema::at(std::string_view operand) const {
  if (const Operand* found = find(operand)) return *found;
  std::vector<std::string> names;
  for (const Operand& candidate : operands) names.push_back(candidate.name);
  throw_bad_input(std::string(operand) + ": no operand of " + name + " (did you mean '" +
                  nearest_name(operand, names) + "'?)");
}

bool OperationSchema::has_field(std::string_view key) const {
  const auto listed = [&](const std::vector<std::string>& keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  return is_common_field(key) || listed(fields);
}

bool is_present(const Operand& operand, const Problem& problem) {
  return holds(operand.present, problem);
}

bool is_read(const Operand& operand, const Problem& problem) {
  return operand.role != Role::output && holds(operand.in_place.read, problem);
}

bool is_written(const Operand& operand, const Problem& problem) {
  return operand.role != Role::input && holds(operand.in_place.written, problem);
}

Cut cut_of(const Operand& operand, const Problem& problem) {
  for (const Dimension& dimension : operand.shape(problem)) {
    if (dimension.cut != Cut::whole) return dimension.cut;
  }
  return Cut::whole;
}

std::string shape_names(const Operand& operand, const Problem& problem) {
  std::string names;
  for (const Dimension& dimension : operand.shape(problem)) {
    names += (names.empty() ? "" : ", ") + std::string(dimension.name);
  }
  return "[" + names + "]";
}

std::vector<std::int64_t> extents(const Operand& operand, const Problem& problem) {
  return extents(operand, problem, problem.num_pool_rows());
}

std::vector<std::int64_t> extents(const Operand& operand, const Problem& problem,
                                  std::int64_t pool_rows) {
  std::vector<std::int64_t> result;
  for (const Dimension& dimension : operand.shape(problem)) {
    result.push_back(dimension.cut == Cut::pool_rows ? pool_rows : dimension.size(problem));
  }
  return result;
}

long double element_count(const Operand& operand, const Problem& problem) {
  long double rows = 1;
  long double others = 1;
  for (const Dimension& dimension : operand.shape(problem)) {
    const auto size = static_cast<long double>(dimension.size(problem));
    (dimension.cut == Cut::pool_rows ? rows : others) *= size;
  }
  if (operand.pool.row_padding != nullptr) {
    others += static_cast<long double>(operand.pool.row_padding(problem));
  }
  return rows * others;
}

std::int64_t row_elements(const Operand& operand, const Problem& problem) {
  std::int64_t elements = 1;
  for (const Dimension& dimension : operand.shape(problem)) {
    if (dimension.cut != Cut::pool_rows) elements *= dimension.size(problem);
  }
  return elements;
}

std::int64_t row_stride(const Operand& operand, const Problem& problem) {
  return row_elements(operand, problem) +
         (operand.pool.row_padding == nullptr ? 0 : operand.pool.row_padding(problem));
}

std::int64_t elements_per_token(const Operand& operand, const Problem& problem) {
  std::int64_t elements = 1;
  for (const Dimension& dimension : operand.shape(problem)) {
    if (dimension.cut != Cut::tokens) elements *= dimension.size(problem);
  }
  return elements;
}

bool tokens_are_fastest(const Operand& operand, const Problem& problem) {
  const auto dimensions = operand.shape(problem);
  return dimensions.size() > 1 && dimensions.back().cut == Cut::tokens;
}

bool takes_token_stride(const Operand& operand, const Problem& problem) {
  return operand.takes_token_stride && !tokens_are_fastest(operand, problem);
}

}  // namespace gdn
