// The convolution's launches, behind both the operation causal_conv1d and the first pass of
// gated_delta_layer.
#pragma once

#include "hip/kernel_launcher.h"
#include "interface/implementation.h"

namespace gdn::hip {

inline constexpr int kConvLaunches = 2;

/// A function that enqueues the convolution. `intermediate`, if not null, takes the result in
/// float32 as [T, channels]; arguments.output may then be null. Throws Error(bad_input) naming the
/// argument.
LaunchPlan::Enqueue convolution(const Problem& problem, const CausalConv1dArguments& arguments,
                                float* intermediate);

}  // namespace gdn::hip
