// A Problem, generated or with its inputs in a case file, to a Case.
#pragma once

#include <string>
#include <vector>

#include "harness/operations/generate_case.h"

namespace gdn {

/// From a case file if problem.case_file is set, generated otherwise.
Case make_case(const Problem& problem);

// ---- problems whose inputs are in a case file

/// Fields a Problem may set on top of what its case file says: dtype, out, state, ht, chunk,
/// conv_in_place. Everything else is the file's.
bool may_override_case(const std::string& field);

/// Problem::parse, completed from the file when the text has case=: "gated_delta:case=F.h5:/layer0"
/// becomes the whole problem. An operation may be asked of a file of another that holds it
/// (OperationHarness::inner_steps). A field that contradicts the file is Error(bad_input), and so is
/// what could not be generated.
Problem resolve_problem(const std::string& text);

/// The operations a case file can be read as: the inner steps of its own first, its own last.
std::vector<Operation> operations_of_case(const std::string& path);

/// The problem of a case file, read as `operation`: one of operations_of_case().
Problem case_problem(const std::string& path, Operation operation);

}  // namespace gdn
