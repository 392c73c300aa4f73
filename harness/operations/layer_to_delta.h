// The gated_delta inside a gated_delta_layer case, so that kernels of the recurrence alone can be
// judged on real inputs of a layer.
#pragma once

#include "interface/case.h"

namespace gdn {

/// Convolution, activation, split, l2 norm of q and k and the gates of `layer`, in float64; q, k
/// and v then rounded to the token dtype, log_decay and beta to float32. Sequences, slots and state
/// pool are the layer's. Throws Error(bad_input) if the case is not of that operation.
Case layer_to_delta(const Case& layer);

/// The problem of that case: normalize_qk = 0, log_decay and beta encodings, no convolution.
Problem layer_to_delta(const Problem& layer);

}  // namespace gdn
