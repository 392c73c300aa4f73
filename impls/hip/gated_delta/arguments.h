// From the interface's arguments to a kernel's argument block.
#pragma once

#include <string>

#include "hip/gated_delta/params.h"
#include "interface/implementation.h"

namespace gdn::hip {

/// Throws Error(bad_input) naming the argument that is null, misaligned or of another encoding than
/// the problem's.
GatedDeltaParams make_params(const Problem& problem, const Arguments& arguments);

/// "f32", "bf16", "f16": the end of a kernel's name.
std::string kernel_suffix(DType token_dtype);

}  // namespace gdn::hip
