// Problems that nobody wrote: every field of every operation drawn from values that it can take, lengths that are no
// multiples of anything. Suites hold what somebody thought of; these find what nobody did.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/verify/suites.h"
#include "interface/operation.h"

namespace gdn {

struct DrawnProblems {
  std::vector<Operation> operations;  ///< empty: every one
  std::int64_t count = 0;
  std::uint64_t seed = 1;
  double most_operations = 2e7;  ///< of a problem (reference::evaluation_flops)
};

/// Valid problems, none twice. Problem i is a function of the operations, the seed, most_operations and i: a larger count
/// goes on with others.
std::vector<SuiteProblem> draw_problems(const DrawnProblems& wanted);

/// What is drawn, by the key of the field. The lengths of `seq`, `channels`, `seed` and `case` are not here: lengths and
/// seeds are numbers of their own, channels are those that heads and dims say, and a case is somebody's.
const std::map<std::string, std::vector<std::string>>& drawn_values();

}  // namespace gdn
