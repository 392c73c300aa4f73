// What it means that an error grew: for the baselines, and for the comparison of two builds.
#pragma once

#include <string>
#include <vector>

#include "harness/rows/row.h"

namespace gdn {

/// Errors of `measured` that grew beyond `stored`, one line each: above growth x the stored error,
/// and above a quarter of the element type's unit roundoff, below which no growth matters.
std::vector<std::string> grown_errors(const Row& stored, const Row& measured, double growth);

}  // namespace gdn
