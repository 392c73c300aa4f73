// From the interface's arguments to a kernel's argument block.
#pragma once

#include <string>

#include "hip/gated_delta/params.h"
#include "interface/implementation.h"

namespace gdn::hip {

/// Throws what require_operands() throws.
GatedDeltaParams make_params(const Problem& problem, const Arguments& arguments);

/// "f32", "bf16", "f16": the end of a kernel's name.
std::string kernel_suffix(DType token_dtype);

}  // namespace gdn::hip
