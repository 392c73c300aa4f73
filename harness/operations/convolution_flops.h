// Floating-point operations of the short convolution: 2 width (+ 1 with a bias) per token and channel;
// activations are not counted.
#pragma once

#include <string>

#include "harness/operations/operation_harness.h"

namespace gdn {

FlopCount convolution_flop_count(const Case& inputs, std::int64_t plan_chunk);
std::string convolution_flops_text(std::int64_t chunk);

}  // namespace gdn
