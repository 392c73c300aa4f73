// A Case out of the host arrays a caller of the C library hands over.
#pragma once

#include "interface/case.h"
#include "interface/implementation.h"

namespace gdn::c_library {

/// Copies; strides are resolved, elements widened. Throws Error(bad_input) naming an array that is
/// missing or holds what no case may hold, Error(unsupported) for slots.
Case host_case(const Problem& problem, const GatedDeltaArguments& arguments);

}  // namespace gdn::c_library
