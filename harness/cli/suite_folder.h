// A suite as case files in a folder, for kernels that read files: gen writes them, the kernel writes its
// outputs under the same names in a folder of its own, verify judges those.
#pragma once

#include <string>
#include <vector>

#include "harness/verify/suites.h"

namespace gdn::cli {

/// The problems of a suite, of one operation where it is named (by --op). Throws Error(bad_input) for an
/// unknown suite, and where it has none of the operation.
std::vector<SuiteProblem> suite_problems(const std::string& suite, const std::string& operation);

/// The name of the problem's file: its string, in letters that any file system takes.
std::string suite_file_name(const Problem& problem);

/// Writes the cases into the folder, which is made where it is not there. Those that are there already
/// stay, so that the same command goes on where it was cut. What no memory here holds is left out. Throws
/// Error(bad_input) for a file of the name that holds another case.
struct WrittenSuite {
  std::size_t written = 0, there = 0;
  std::vector<std::string> left_out;  ///< problem: reason
};
WrittenSuite write_suite(const std::vector<SuiteProblem>& problems, const std::string& folder);

}  // namespace gdn::cli
