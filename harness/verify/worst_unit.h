// Which part of an output is the furthest above what it may be wrong by.
#pragma once

#include "reference/errors.h"

namespace gdn {

/// The unit's error over what it may be (reference::of_limit): above 1 it is wrong. 0 of an exact copy;
/// infinite where anything is not finite.
double limit_ratio(const reference::OutputErrors& output, const reference::UnitError& unit,
                   const reference::ErrorLimits& limits);

/// The unit of the largest limit_ratio, the first of equals. Limits differ from head to head, so
/// that it is not always that of the largest error. The output has units.
const reference::UnitError& worst_unit(const reference::OutputErrors& output,
                                       const reference::ErrorLimits& limits);

}  // namespace gdn
