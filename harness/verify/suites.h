// Named lists of problems that verification runs: what "verified" means, in one place. The lists
// taken from elsewhere are data/suites/*.tsv, held by the program itself.
#pragma once

#include <string>
#include <vector>

#include "interface/problem.h"

namespace gdn {

struct SuiteProblem {
  Problem problem;
  std::string origin;           ///< "FLA test_gdn chunk"; "-" for our own
  std::string protects;         ///< what it would show
  bool every_split = false;     ///< VerifyOptions::every_split
  bool token_by_token = false;  ///< VerifyOptions::token_by_token
};

struct Suite {
  std::string name;
  std::string help;
  std::vector<SuiteProblem> problems;  ///< no problem twice
};

/// quick      every operation, variant and option once or twice, small: seconds on a CPU
/// full       lengths 0 to 4096 with chunk edges +-1, every dtype, head ratio, head size, option,
///            variant and input distribution; and the cases of other projects' suites
///            (suites/peers.tsv)
/// stress     what kernels of this kind are known to have failed at (suites/stress.tsv)
/// nightly    full, stress, and batches that fill a large device (suites/nightly.tsv)
/// gpu        the first part of full, and batches large enough to fill a GPU
/// sanitizer  few and small, for compute-sanitizer
/// Of problems of more than 2.5 GB VerifyOptions::of_suite_problem says what is checked.
/// Throws Error(bad_input) with the nearest name.
Suite find_suite(const std::string& name);
std::vector<std::string> suite_names();

/// The problems of one suite file (its text, and its name for error lines): columns problem,
/// checks, protects (stress, nightly) or problem, origin, protects (peers).
std::vector<SuiteProblem> parse_suite_file(const std::string& name, const std::string& text);

}  // namespace gdn
