// A Case out of the host arrays a caller of the C library hands over.
#pragma once

#include "interface/arguments.h"
#include "interface/case.h"

namespace gdn::c_library {

/// Copies what the arguments say is read; strides are resolved, elements widened. Throws
/// Error(bad_input) naming an array that is missing or holds what no case may hold.
Case host_case(const Problem& problem, const Arguments& arguments);

}  // namespace gdn::c_library
