// The generated operands of the short convolution: qkv N(0, 1) entries; conv_weight N(0, 1) /
// sqrt(width); conv_bias N(0, 1) * 0.1; conv_state N(0, 1); has_window 0, 1, 0, and so on;
// window_position uniform below 1024, of the second sequence in four 0, of the third 2^31 - 1024 more.
// KeyDistribution does not apply: a layer's keys come out of the convolution.
#pragma once

#include "interface/case.h"

namespace gdn {

void draw_convolution(Case& c);

}  // namespace gdn
