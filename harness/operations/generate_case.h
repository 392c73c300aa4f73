// Generated inputs: a Problem, with its seed, to a Case.
#pragma once

#include "interface/case.h"

namespace gdn {

/// Every array of the problem's operation, rounded to its element type. Deterministic in every build
/// and on every machine (own counter-based generator; no std:: distribution): the same Problem string
/// is the same numbers everywhere. Distributions are documented at the enumerations in
/// interface/problem.h. Throws Error(bad_input) when problem.case_file is set (make_case reads it),
/// and what require_host_memory throws.
Case generate_case(const Problem& problem);

/// Whether magnitudes=edges draws the operand's rows: an input of tokens in the token dtype, but where
/// the operation says otherwise (OperationHarness::takes_any_magnitude).
bool has_edges(const Operand& operand, const Problem& problem);

}  // namespace gdn
