// Where an error sits and what it looks like, as lines for a caller of the C library.
#pragma once

#include <string>
#include <vector>

#include "harness/explain/fault_patterns.h"

namespace gdn::c_library {

/// The violation, a line for each output above its limit and where in it, and the patterns that it is
/// consistent with; "within the limits" where nothing is wrong. Lines are parted by new lines.
std::string explanation_text(const Anatomy& anatomy, const std::vector<FaultPattern>& patterns);

}  // namespace gdn::c_library
