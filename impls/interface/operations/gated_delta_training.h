// gated_delta_training (docs/contract.md, section 1.14): the forward call and the backward call of the
// gated delta rule as one step, and each of the two as a call of its own.
#pragma once

#include "interface/case.h"
#include "interface/operation.h"
#include "interface/problem.h"

namespace gdn {

const OperationSchema& gated_delta_training_operation();

/// The step's gated_delta: its problem, and its case.
Problem forward_of(const Problem& training);
Case forward_of(const Case& training);
/// The step's gated_delta_backward.
Problem backward_of(const Problem& training);
Case backward_of(const Case& training);

}  // namespace gdn
