#include "harness/operations/generate_case.h"

#include "harness/inputs/draw.h"
#include "harness/inputs/draw_edges.h"
#include "harness/operations/operation_harness.h"
#include "harness/run/memory_needed.h"
#include "interface/error.h"
#include "interface/operations/dimensions.h"

namespace gdn {

const OperationHarness& harness_of(Operation operation) {
  for (const OperationHarness* harness : operation_harnesses()) {
    if (harness->operation == operation) return *harness;
  }
  throw_bad_input("harness: nothing is known of " + operation->name);
}

bool has_edges(const Operand& operand, const Problem& p) {
  if (operand.role != Role::input || operand.is_index() || !is_present(operand, p)) return false;
  if (cut_of(operand, p) != Cut::tokens || operand.dtype != element_type::token) return false;
  const auto may = harness_of(p.operation).takes_any_magnitude;
  return may == nullptr || may(p, operand);
}

Case generate_case(const Problem& p) {
  p.validate();
  if (!p.case_file.empty()) {
    throw_bad_input("problem: case=" + p.case_file + " is read from its file, not generated");
  }
  require_host_memory(p);
  Case c;
  c.problem = p;
  c.sequence_offsets = p.sequences.offsets();
  c.slot_index = draw_slot_index(p);
  draw_output_slots(c);
  draw_checkpoints(c);
  draw_rounding_seeds(c);
  const OperationHarness& harness = harness_of(p.operation);
  harness.draw(c);
  if (p.magnitudes == Magnitudes::edges) {
    for (const Operand& operand : p.operation->operands) {
      if (has_edges(operand, p)) draw_edges(c, operand);
    }
  }
  return c;
}

}  // namespace gdn
