// Grid: the problems of one command: the cartesian product of axis values over Problem's fields,
// plus problems given whole and case files. Axes come from presets and from the command line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "interface/problem.h"

namespace gdn {

struct GridSpec {
  Operation operation = Operation::gated_delta;
  std::vector<std::string> presets;  ///< names, in order; later ones win axis by axis
  /// Field key of problem_fields() -> values ("heads" -> {"16/32", "16/64"}); wins over presets.
  std::map<std::string, std::vector<std::string>> axes;
  std::vector<std::string> problems;  ///< whole Problem strings, taken as they are
  std::vector<std::string> cases;     ///< "FILE.h5[:/group]": inputs read from case files
};

/// "16,32,64" -> {"16", "32", "64"}; throws Error(bad_input) on an empty item, naming the axis.
std::vector<std::string> split_values(const std::string& axis, const std::string& text);

/// Every problem, in order: whole problems first, then the product (the last field of
/// problem_fields() varies fastest), duplicates removed. The product is made when an axis or a
/// preset is given, or when no whole problem and no case is. Cases are not expanded here: their
/// problems stand in the files. Throws Error(bad_input).
std::vector<Problem> expand(const GridSpec& spec);

}  // namespace gdn
