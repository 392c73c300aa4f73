// The generated inputs of the gated norm. x and z are N(0, 1), but of three value heads in four, by
// sequence and head in turn: rows of x small beside eps and zeros, rows of x so large that a square
// comes near the end of float32, and z beyond the range of exp. weight is 1 + N(0, 1) / 4: as in a
// trained model near 1, and not to be left out unnoticed.
#pragma once

#include "interface/case.h"

namespace gdn {

void draw_gated_norm(Case& c);

}  // namespace gdn
