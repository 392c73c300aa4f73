#include "plugin/operand_in_c.h"

#include <array>
#include <string>

#include "interface/error.h"

namespace gdn {
namespace {

const char* role_in_c(Role role) {
  switch (role) {
    case Role::input:
      return "input";
    case Role::output:
      return "output";
    case Role::in_place:
      return "in place";
  }
  return "";
}

}  // namespace

const char* dtype_in_c(DType dtype) {
  static const std::array<std::string, 4> names = {
      short_name(DType::float32), short_name(DType::bfloat16), short_name(DType::float16),
      short_name(DType::int8)};
  return names[static_cast<std::size_t>(dtype)].c_str();
}

gdnbench_operand operand_in_c(const Problem& problem, int index) {
  gdnbench_operand result{};
  for (const Operand& operand : problem.operation->operands) {
    if (!is_present(operand, problem) || operand.hand_over.between_steps || index-- != 0) continue;
    result.name = operand.name.c_str();
    result.name_after = operand.output_name().c_str();
    result.role = role_in_c(operand.role);
    result.dtype = operand.is_index() ? "int64" : dtype_in_c(operand.dtype(problem));
    const auto shape = operand.shape(problem);
    const auto sizes = extents(operand, problem);
    if (shape.size() > GDNBENCH_MAX_RANK)
      throw_bad_input(operand.name + ": has too many dimensions");
    result.rank = static_cast<std::int32_t>(shape.size());
    for (std::size_t i = 0; i < shape.size(); ++i) {
      result.extents[i] = sizes[i];
      result.dimensions[i] = shape[i].name;
    }
    result.is_read = operand.role != Role::output && is_read(operand, problem);
    result.is_written = operand.is_output() && is_written(operand, problem);
    result.takes_token_stride = takes_token_stride(operand, problem);
    result.is_optional = operand.hand_over.on_request || !(result.is_read || result.is_written);
    return result;
  }
  return result;
}

bool is_field_of(const ProblemField& field, const Problem& problem) {
  return is_common_field(field.key) || problem.operation->has_field(field.key);
}

}  // namespace gdn
