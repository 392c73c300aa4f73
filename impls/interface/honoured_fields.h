// Which fields of a problem somebody honours: an implementation, a reference, another system's
// convention. Whatever is not named is refused where it is off its default, so that a field added
// tomorrow is not ignored by what was written today.
#pragma once

#include <string>
#include <vector>

#include "interface/problem.h"

namespace gdn {

/// Keys of problem fields ("steps": whatever its value), or a key with the values that are honoured
/// beside the default ("decay=channel", "act=none|silu"). Fields that every operation has (heads,
/// seq, dtype, chunk, ...), and those that only say how inputs are drawn (ProblemField::of_inputs),
/// need not be named.
using HonouredFields = std::vector<std::string>;

/// The first of the problem's fields that is off its default and not honoured, as "window=8"; empty
/// if there is none.
std::string first_not_honoured(const Problem& problem, const HonouredFields& honoured);

/// Both lists.
HonouredFields operator+(HonouredFields fields, const HonouredFields& more);

}  // namespace gdn
