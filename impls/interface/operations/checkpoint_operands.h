// States inside a call (docs/contract.md, section 1.7): after which tokens they are wanted, and the array
// that takes them.
#pragma once

#include "interface/operation.h"

namespace gdn {

inline constexpr const char* kCheckpointTokens = "checkpoint_tokens";
inline constexpr const char* kCheckpointStates = "checkpoint_states";

/// checkpoint_tokens and checkpoint_states, which are there with `checkpoints` above 0.
std::vector<Operand> checkpoint_operands();

/// Of parts of sequences that are cut from a batch: the counts that lie in a part, from its first token
/// on, and zeros for the others. For OperationSchema::fit_part.
void fit_checkpoints(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part);

/// Throws Error(bad_input) where the problem's fields say checkpoints that cannot be.
void validate_checkpoints(const Problem& problem);

}  // namespace gdn
