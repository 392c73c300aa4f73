// What is wrong with an output of integers that another output scales (interface/channel_quantization.h), state
// checkpoints in int8 among them: its scales, or how its elements were rounded.
#pragma once

#include <vector>

#include "harness/explain/fault_patterns.h"

namespace gdn {

///   channel scales     the scales are wrong: those of all channels of a unit, or others, while the state that
///                      they stand for may be right
///   channel rounding   the scales are right, and elements off by up to a whole step in one direction
std::vector<FaultPattern> find_scaled_patterns(const CheckedReference& reference,
                                               const Outputs& outputs, const Anatomy& anatomy);

}  // namespace gdn
