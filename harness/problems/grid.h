// Grid: the problems of one command: the cartesian product of axis values over Problem's fields,
// plus problems given whole and case files. Axes come from presets and from the command line.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "interface/problem.h"

namespace gdn {

struct GridSpec {
  Operation operation;
  bool operation_given = false;      ///< cases are then read as `operation` alone
  std::vector<std::string> presets;  ///< names, in order; later ones win axis by axis
  /// Field key of problem_fields() -> values ("heads" -> {"16/32", "16/64"}); wins over presets.
  std::map<std::string, std::vector<std::string>> axes;
  std::vector<std::string> problems;  ///< whole Problem strings
  std::vector<std::string> cases;     ///< "FILE.h5[:/group]": inputs read from case files

  /// Whether anything says which problems are meant.
  bool names_problems() const {
    return !presets.empty() || !axes.empty() || !problems.empty() || !cases.empty();
  }
};

/// "16,32,64" -> {"16", "32", "64"}; throws Error(bad_input) on an empty item, naming the axis.
std::vector<std::string> split_values(const std::string& axis, const std::string& text);

/// Every problem, in order, duplicates removed: whole problems, cases, then the product (the last
/// field of problem_fields() varies fastest).
///
/// A case stands for its own problem, and for those of the inner steps it holds as well (first),
/// unless the operation is given. Axes that may override a case (dtype, out, state,
/// ht, chunk, conv_in_place; see make_case.h) apply to the cases too. The product is made when a
/// preset or an axis no case can take is given, or when there is neither a whole problem nor a
/// case. Throws Error(bad_input).
std::vector<Problem> expand(const GridSpec& spec);

}  // namespace gdn
