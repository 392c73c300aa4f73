#include "harness/run/element_place.h"

namespace gdn {

std::string element_place(const Operand& operand, const Problem& problem, std::int64_t flat) {
  if (cut_of(operand, problem) == Cut::pool_rows) {
    const std::int64_t stride = row_stride(operand, problem);
    const std::int64_t used = row_elements(operand, problem);
    const std::int64_t row = flat / stride, in_row = flat % stride;
    if (in_row >= used) {
      return "row " + std::to_string(row) + ", " + std::to_string(in_row - used) +
             " elements into the padding after it";
    }
    flat = row * used + in_row;
  }
  std::string index;
  const std::vector<std::int64_t> shape = extents(operand, problem);
  for (auto extent = shape.rbegin(); extent != shape.rend(); ++extent) {
    index = std::to_string(flat % *extent) + (index.empty() ? "" : ", ") + index;
    flat /= *extent;
  }
  return "[" + index + "] of " + shape_names(operand, problem);
}

}  // namespace gdn
