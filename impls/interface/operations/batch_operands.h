// What every operation on a ragged batch takes: where each sequence lies.
#pragma once

#include "interface/operation.h"

namespace gdn {

/// sequence_offsets [N + 1], exclusive prefix sums; a case file without it holds one sequence.
Operand sequence_offsets_operand();
/// slot_index [N], rows of the state pools, -1 = padding; only with slots other than identity.
Operand slot_index_operand();
inline constexpr const char* kOutputSlotIndex = "output_slot_index";
/// output_slot_index [N], rows that final states are written to, negative = none; only with
/// output_slots=other.
Operand output_slot_index_operand();

}  // namespace gdn
