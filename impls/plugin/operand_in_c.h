// Operands and fields of a problem in the structs of gdnbench.h.
#pragma once

#include <gdnbench.h>

#include "interface/problem.h"

namespace gdn {

/// Operand `index` of those that callers see of the problem; no name past the last. Names last for ever.
/// Throws Error(bad_input) where it has more dimensions than the struct.
gdnbench_operand operand_in_c(const Problem& problem, int index);

/// Whether the problem's operation looks at the field.
bool is_field_of(const ProblemField& field, const Problem& problem);

/// "f32", for ever.
const char* dtype_in_c(DType dtype);

}  // namespace gdn
