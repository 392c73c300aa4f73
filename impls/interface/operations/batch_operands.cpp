#include "interface/operations/batch_operands.h"

#include "interface/case.h"
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

Operand output_slot_index_operand() {
  return {.name = kOutputSlotIndex,
          .shape = [](const Problem&) { return std::vector{dimension::N}; },
          .present = [](const Problem& p) { return p.output_slots == OutputSlots::other; },
          .in_file = {.infer_presence =
                          [](Problem& p, bool present) {
                            p.output_slots = present ? OutputSlots::other : OutputSlots::same;
                          }},
          .index_rule = {[](const Case& c, std::int64_t, std::int64_t slot) {
                           return slot >= -1 && slot < c.problem.num_pool_rows();
                         },
                         "-1 or a row of the pool"}};
}

}  // namespace gdn
