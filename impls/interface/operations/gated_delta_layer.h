// gated_delta_layer (docs/contract.md, section 1.3): convolution, norm of q and k, gates and the
// gated delta rule as one operation. Its operands are those of its steps under their own names, so
// that Arguments::shared_with() gives each step what is its own.
#pragma once

#include "interface/operation.h"
#include "interface/problem.h"

namespace gdn {

const OperationSchema& gated_delta_layer_operation();

/// A step of a layer as a problem of its own: what `operation` looks at is the layer's, the rest at
/// its default.
Problem step_of_layer(const Problem& layer, Operation operation);

}  // namespace gdn
