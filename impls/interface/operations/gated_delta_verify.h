// gated_delta_verify (docs/contract.md, section 1.6): its operands as typed pointers, which is what
// kernels read.
#pragma once

#include <cstdint>

#include "interface/operations/gated_delta.h"

namespace gdn {

const OperationSchema& gated_delta_verify_operation();

/// The phases, by their numbers (Plan::run_phase).
enum class DraftPhase : int { verify = 0, commit = 1 };

struct GatedDeltaVerifyArguments {
  /// Of all draft tokens. Only `commit` writes the state pool.
  GatedDeltaArguments draft;
  /// [N], 0 .. the tokens of the sequence; read by `commit` alone, as it is then.
  IndexArray accepted;
};

/// Checked by require_operands(), as gated_delta_arguments() is.
GatedDeltaVerifyArguments gated_delta_verify_arguments(const Problem& problem,
                                                       const Arguments& arguments);

}  // namespace gdn
