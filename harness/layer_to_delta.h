// A gated_delta case made of a layer case: what the recurrence sees inside the layer. This is how a
// real trace, which holds a layer's inputs, exercises kernels that do gated_delta alone.
#pragma once

#include "interface/case.h"

namespace gdn {

/// Runs convolution and activation in float64, divides q and k by sqrt(sum x^2 + 1e-6) if the layer
/// normalises (the result has normalize_qk off), and rounds q, k, v once to the token dtype. Gates
/// and betas keep their encoding and values, the state pool its rows. Throws Error(bad_input) if
/// `layer` is no gated_delta_layer case.
Case gated_delta_case_of_layer(const Case& layer);

}  // namespace gdn
