// What a wrong convolution looks like: the part of harness/explain/fault_patterns.h about conv_output and
// conv_state, of causal_conv1d and of a layer that exposes them.
#pragma once

#include <vector>

#include "harness/explain/fault_patterns.h"

namespace gdn {

/// Empty where the convolution is right. The places:
///
///   activation, bias, taps, conv layout, conv window
///                    outputs are those of the other activation; of no bias; of reversed taps; of
///                    the other token layout; of windows that start from zeros or newest first
///   sequence start   only the first width - 1 tokens of sequences: what they take from the window
///   convolution      other tokens
///   short window     only windows of sequences shorter than a window wrong; after what outputs say
///   final window     other windows wrong; likewise
std::vector<FaultPattern> find_convolution_patterns(const CheckedReference& reference,
                                                    const Outputs& outputs);

}  // namespace gdn
