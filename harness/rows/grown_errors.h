// What it means that an error grew: for the baselines, and for the comparison of two builds.
#pragma once

#include <string>
#include <vector>

#include "harness/rows/row.h"

namespace gdn {

/// An error as it is, as it was, and as it may be; all in the metric's unit. NaN where it is not told.
struct GrownError {
  std::string output;
  ErrorMetric metric = ErrorMetric::relative_l2;
  double stored = kNotMeasured;
  double now = kNotMeasured;
  double allowed = kNotMeasured;
  double growth = 1;  ///< how many times the stored error is allowed

  /// Infinite where one of the two is NaN: nothing is worse.
  double times_allowed() const;
  std::string text() const;  ///< one line
};

/// Errors of `measured` that grew beyond `stored`: above growth x the stored error, and above a
/// quarter of the element type's unit roundoff, below which no growth matters.
std::vector<GrownError> grown_errors(const Row& stored, const Row& measured, double growth);

}  // namespace gdn
