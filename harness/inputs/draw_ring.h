// The generated rings of gated_delta_ring: how much each sequence's holds and where it begins (RingFill), and the
// records of every place of every row, those that hold none included: keys as the problem's keys are drawn,
// decays as its gates, updates N(0, 1) / 2 over the key's length where keys are normalised. Padding after rows is
// NaN.
#pragma once

#include "interface/case.h"

namespace gdn {

void draw_ring(Case& c);

}  // namespace gdn
