// gated_delta_layer_backward (docs/contract.md, section 1.15): the gradients of a whole layer, and the
// steps that it is made of, each as a problem of its own. Its operands are those of the steps under their
// own names, but for the norm's weight, which is norm_weight, and for what the steps hand on to one
// another: d_output is with respect to the layer's last output.
#pragma once

#include "interface/case.h"
#include "interface/operation.h"
#include "interface/problem.h"

namespace gdn {

const OperationSchema& gated_delta_layer_backward_operation();

/// The layer's forward call, without what only its pools hold behind it: its problem, and its case. It
/// writes the final states and windows whose gradients are given.
Problem layer_of(const Problem& gradients);
Case layer_of(const Case& gradients);

/// What is computed again of the forward call: conv_output, and with gated_norm=1 the recurrence's
/// output. Neither writes a state or a window.
Problem convolution_again(const Problem& gradients);
Problem recurrence_again(const Problem& gradients);

/// The gradients of the steps, in the order in which they are computed; the first with gated_norm=1 alone.
Problem norm_gradients_of(const Problem& gradients);
Problem recurrence_gradients_of(const Problem& gradients);
Problem convolution_gradients_of(const Problem& gradients);

}  // namespace gdn
