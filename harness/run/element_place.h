// Where an element stands in an operand's array, as error lines say it.
#pragma once

#include <cstdint>
#include <string>

#include "interface/operation.h"

namespace gdn {

/// "[78, 1, 5] of [T, Hv, Dv]": the index of element `flat` of the operand's array, outermost
/// dimension first. Padding after a pool's rows is in no dimension: "row 3, 2 elements into the
/// padding after it".
std::string element_place(const Operand& operand, const Problem& problem, std::int64_t flat);

}  // namespace gdn
