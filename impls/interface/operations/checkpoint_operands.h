// States and windows inside a call (docs/contract.md, section 1.7): after which tokens they are wanted, and
// the arrays that take them.
#pragma once

#include "interface/operation.h"

namespace gdn {

inline constexpr const char* kCheckpointTokens = "checkpoint_tokens";
inline constexpr const char* kCheckpointStates = "checkpoint_states";
inline constexpr const char* kCheckpointScales = "checkpoint_scales";
inline constexpr const char* kCheckpointWindows = "checkpoint_windows";

/// [N, K], there with `checkpoints` above 0.
Operand checkpoint_tokens_operand();
/// [N, K] times a state of the recurrence, likewise.
Operand checkpoint_states_operand();
/// [N, K] times a scale for each value head and key channel, where those states are int8.
Operand checkpoint_scales_operand();
/// [N, K] times a window of the convolution, likewise, where the problem has windows.
Operand checkpoint_windows_operand();

/// Of parts of sequences that are cut from a batch: the counts that lie in a part, from its first token
/// on, and zeros for the others. For OperationSchema::fit_part.
void fit_checkpoints(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part);

/// Bytes of checkpoint_states.
std::int64_t checkpoint_state_bytes(const Problem& problem);

/// Throws Error(bad_input) where the problem's fields say checkpoints that cannot be.
void validate_checkpoints(const Problem& problem);

}  // namespace gdn
