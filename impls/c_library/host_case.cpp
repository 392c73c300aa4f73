#include "c_library/host_case.h"

#include <limits>
#include <string>

#include "interface/error.h"

namespace gdn::c_library {
namespace {

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
  if (pointer.token_stride != 0) {
    if (cut_of(operand, problem) != Cut::tokens || tokens_are_fastest(operand, problem)) {
      throw_bad_input(operand.name + ": has no token stride, its shape is " +
                      shape_names(operand, problem));
    }
    width = elements_per_token(operand, problem);
    stride = pointer.token_stride * static_cast<std::int64_t>(size_of(dtype));
    if (pointer.token_stride < width) {
      throw_bad_input(operand.name + ": token stride " + std::to_string(pointer.token_stride) +
                      " is smaller than a token's " + std::to_string(width) + " elements");
    }
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
    if (operand.role == Role::output || !is_present(operand, problem)) continue;
    const ArrayPointer pointer = arguments[operand.name];
    if (operand.is_index()) {
      result.indices(operand) = indices(operand, problem, pointer);
    } else if (is_read(operand, problem)) {
      result[operand.name] = widened(operand, problem, pointer);
    } else {
      result[operand.name].assign(static_cast<std::size_t>(element_count(operand, problem)),
                                  std::numeric_limits<float>::quiet_NaN());
    }
  }
  validate(result);
  return result;
}

}  // namespace gdn::c_library
