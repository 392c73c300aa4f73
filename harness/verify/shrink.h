// The least problem that still fails: what a failure that was drawn is reported as.
#pragma once

#include <functional>

#include "interface/problem.h"

namespace gdn {

/// A problem that `fails` is true of, as it is of `problem`, and of none of those that are a step simpler: a sequence
/// less, a sequence half as long or a token shorter, a field at its default, fewer heads, smaller head dims. Asks at most
/// `most_asked` times, and then gives the simplest found.
Problem shrunk(const Problem& problem, const std::function<bool(const Problem&)>& fails,
               int most_asked = 300);

}  // namespace gdn
