#include "interface/operations/batch_operands.h"

#include "interface/operations/dimensions.h"

namespace gdn {

Operand sequence_offsets_operand() {
  return {.name = "sequence_offsets",
          .shape = [](const Problem&) { return std::vector{dimension::N_plus_1}; }};
}

Operand slot_index_operand() {
  return {.name = "slot_index",
          .shape = [](const Problem&) { return std::vector{dimension::N}; },
          .present = [](const Problem& p) { return p.slots != SlotMap::identity; }};
}

}  // namespace gdn
