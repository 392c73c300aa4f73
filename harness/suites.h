// Named lists of problems that verification runs: what "verified" means, in one place.
#pragma once

#include <string>
#include <vector>

#include "interface/problem.h"

namespace gdn {

struct Suite {
  std::string name;
  std::string help;
  std::vector<Problem> problems;
};

/// quick      every operation, variant and option once or twice, small: seconds on a CPU
/// full       lengths 0 to 4096 with chunk edges +-1, every dtype, head ratio, head size, option,
///            variant and input distribution: at least 200 problems
/// gpu        full, and batches large enough to fill a GPU (checked on a sample of heads)
/// sanitizer  few and small, for compute-sanitizer
/// Throws Error(bad_input) with the nearest name.
const Suite& find_suite(const std::string& name);
const std::vector<Suite>& suites();

}  // namespace gdn
