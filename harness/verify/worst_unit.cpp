#include "harness/verify/worst_unit.h"

#include <algorithm>

namespace gdn {

using reference::ErrorLimits;
using reference::OutputErrors;
using reference::UnitError;

double limit_ratio(const OutputErrors& output, const UnitError& unit, const ErrorLimits& limits) {
  return reference::of_limit(output, unit, limits);
}

const UnitError& worst_unit(const OutputErrors& output, const ErrorLimits& limits) {
  return *std::max_element(output.units.begin(), output.units.end(),
                           [&](const UnitError& a, const UnitError& b) {
                             return limit_ratio(output, a, limits) < limit_ratio(output, b, limits);
                           });
}

}  // namespace gdn
