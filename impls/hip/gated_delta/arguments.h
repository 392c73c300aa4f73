// From the interface's arguments to a kernel's argument block.
#pragma once

#include <cstddef>
#include <string>

#include "hip/gated_delta/params.h"
#include "interface/implementation.h"
#include "interface/operations/gated_delta.h"

namespace gdn::hip {

/// Throws what require_operands() throws.
GatedDeltaParams make_params(const Problem& problem, const Arguments& arguments);
/// Of operands that have been checked.
GatedDeltaParams make_params(const Problem& problem, const GatedDeltaArguments& given);

/// Of kernels that store states inside the call, or round the final one by chance. Others read its first member, and are given no more bytes.
CheckpointParams make_checkpoint_params(const Problem& problem, const Arguments& arguments);
std::size_t checkpoint_params_bytes(const Problem& problem);
/// Before the name of a kernel that is compiled with and without.
std::string checkpoint_prefix(const Problem& problem);

/// "f32", "bf16", "f16": the end of a kernel's name.
std::string kernel_suffix(DType token_dtype);

}  // namespace gdn::hip
