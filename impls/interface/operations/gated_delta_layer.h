// gated_delta_layer (docs/contract.md, section 1.3): convolution, norm of q and k, gates, the gated
// delta rule and, on request, the gated norm of its output as one operation. Its operands are those of
// its steps under their own names, but for the norm's: its weight is norm_weight, and its y is output.
#pragma once

#include "interface/chain.h"
#include "interface/operation.h"
#include "interface/problem.h"

namespace gdn {

const OperationSchema& gated_delta_layer_operation();

/// Its steps: causal_conv1d, gated_delta, gated_rms_norm (with gated_norm=1).
const Chain& gated_delta_layer_chain();

}  // namespace gdn
