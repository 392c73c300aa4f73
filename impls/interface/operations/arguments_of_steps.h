// The operands of a convolution and of a recurrence as typed pointers, of an operation that does both by itself, as a
// layer in one kernel: it has them under their own names, but for what one hands on to the other.
#pragma once

#include "interface/arguments.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/gated_delta.h"
#include "interface/problem.h"

namespace gdn {

/// Of arguments that are checked already: qkv, weights, windows and, where it is asked for, conv_output.
CausalConv1dArguments convolution_arguments(const Problem& problem, const Arguments& arguments);
/// Of arguments that are checked already: gates, betas, states and the output; q, k and v stay null.
GatedDeltaArguments recurrence_arguments(const Problem& problem, const Arguments& arguments);

}  // namespace gdn
