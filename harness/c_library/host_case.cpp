#include "harness/c_library/host_case.h"

#include <algorithm>
#include <limits>
#include <string>

#include "interface/error.h"
#include "interface/operations/batch_operands.h"

namespace gdn::c_library {
namespace {

/// The rows that the caller's slots need, where the problem does not say how many a pool has: what
/// lies behind them need not be there.
std::int64_t rows_of_slots(const std::vector<std::int64_t>& slots) {
  std::int64_t rows = 1;
  for (const std::int64_t slot : slots) rows = std::max(rows, slot + 1);
  return rows;
}

const void* required(const Operand& operand, const ArrayPointer& pointer) {
  if (pointer.read == nullptr) throw_bad_input(operand.name + ": is null, an array was expected");
  return pointer.read;
}

std::vector<std::int64_t> indices(const Operand& operand, const Problem& problem,
                                  const ArrayPointer& pointer) {
  const auto count = static_cast<std::int64_t>(element_count(operand, problem));
  if (count == 0) return {};
  const auto* values = static_cast<const std::int64_t*>(required(operand, pointer));
  return {values, values + count};
}

/// As floats, one token behind the other.
std::vector<float> widened(const Operand& operand, const Problem& problem,
                           const ArrayPointer& pointer) {
  const auto count = static_cast<std::int64_t>(element_count(operand, problem));
  std::vector<float> values(static_cast<std::size_t>(count));
  if (values.empty()) return values;
  const auto* from = static_cast<const char*>(required(operand, pointer));
  const DType dtype = operand.dtype(problem);
  std::int64_t width = count;
  std::int64_t stride = 0;
  require_token_stride(operand, problem, pointer.token_stride);
  if (pointer.token_stride != 0) {
    width = elements_per_token(operand, problem);
    stride = pointer.token_stride * static_cast<std::int64_t>(size_of(dtype));
  }
  for (std::int64_t token = 0; token * width < count; ++token) {
    decode(dtype, from + token * stride, &values[static_cast<std::size_t>(token * width)], width);
  }
  return values;
}

}  // namespace

Case host_case(const Problem& problem, const Arguments& arguments) {
  Case result;
  result.problem = problem;
  for (const Arguments::Entry& entry : arguments.entries()) {
    const Operand& operand = problem.operation->at(entry.operand);
    if (!is_present(operand, problem)) {
      throw_bad_input(operand.name + ": is not an operand of " + problem.to_string());
    }
  }
  for (const Operand& operand : problem.operation->operands) {
    if (!operand.is_index() || !is_present(operand, problem)) continue;
    result.indices(operand) = indices(operand, problem, arguments[operand.name]);
  }
  if (problem.pool_rows == 0 && !result.slot_index.empty()) {
    result.problem.set_pool_rows(rows_of_slots(result.slot_index));
  }
  if (problem.pool_rows == 0 && problem.output_slots == OutputSlots::other) {
    std::int64_t rows =
        result.slot_index.empty() ? problem.num_sequences() : rows_of_slots(result.slot_index);
    rows = std::max(rows, rows_of_slots(result.other_indices[kOutputSlotIndex]));
    result.problem.set_pool_rows(rows);
  }
  for (const Operand& operand : problem.operation->operands) {
    if (operand.is_index() || operand.role == Role::output || !is_present(operand, problem)) {
      continue;
    }
    if (is_read(operand, problem)) {
      result[operand.name] = widened(operand, result.problem, arguments[operand.name]);
    } else {
      result[operand.name].assign(static_cast<std::size_t>(element_count(operand, result.problem)),
                                  std::numeric_limits<float>::quiet_NaN());
    }
  }
  validate(result);
  return result;
}

}  // namespace gdn::c_library
