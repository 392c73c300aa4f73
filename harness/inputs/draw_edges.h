// Rows of tokens at the edges of what an operation must do right: zeros, whose norm divides by nothing
// but eps; values so small that eps is all there is; values so large that a square or a product comes
// near the end of the type. A right kernel keeps its relative error with all of them. They are drawn
// by unit, since errors are relative to a unit and its large values would hide an error of small ones.
#pragma once

#include "interface/case.h"
#include "interface/operation.h"

namespace gdn {

/// Multiplies the rows of the operand (an input in the token dtype that is cut by tokens), in place:
/// of sequence n and head h, (n + h) mod 3 says how. The factors are powers of two:
///   0   1
///   1   2^-6 .. 2^-17, and 0 for one row in 8
///   2   2^4 .. 2^20, or 2^6 where any of the problem's types is float16
void draw_edges(Case& c, const Operand& operand);

}  // namespace gdn
