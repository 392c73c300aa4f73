#include "harness/operations/generate_case.h"

#include "harness/inputs/draw.h"
#include "harness/operations/operation_harness.h"
#include "harness/run/memory_needed.h"
#include "interface/error.h"

namespace gdn {

const OperationHarness& harness_of(Operation operation) {
  for (const OperationHarness* harness : operation_harnesses()) {
    if (harness->operation == operation) return *harness;
  }
  throw_bad_input("harness: nothing is known of " + operation->name);
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
  harness_of(p.operation).draw(c);
  return c;
}

}  // namespace gdn
