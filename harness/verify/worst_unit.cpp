#include "harness/verify/worst_unit.h"

#include <algorithm>
#include <limits>

namespace gdn {

using reference::ErrorLimits;
using reference::OutputErrors;
using reference::UnitError;

double limit_ratio(const OutputErrors& output, const UnitError& unit, const ErrorLimits& limits) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double error = unit.error.relative_l2;
  if (unit.error.non_finite > 0) return kInfinity;
  if (error == 0) return 0;
  const double ratio = error / reference::allowed(output, unit, limits);
  return ratio >= 0 ? ratio : kInfinity;  // NaN is the worst too
}

const UnitError& worst_unit(const OutputErrors& output, const ErrorLimits& limits) {
  return *std::max_element(output.units.begin(), output.units.end(),
                           [&](const UnitError& a, const UnitError& b) {
                             return limit_ratio(output, a, limits) < limit_ratio(output, b, limits);
                           });
}

}  // namespace gdn
