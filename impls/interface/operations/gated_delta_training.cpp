#include "interface/operations/gated_delta_training.h"

#include <utility>

#include "interface/chain.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_backward.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

// A pool of its own, since the gradients need the initial state as it was: every sequence that owns a
// row writes it, whether it has tokens or not.
Operand final_state_pool() {
  Operand operand = state_operand();
  operand.name = "final_state";
  operand.role = Role::output;
  operand.present = [](const Problem& p) { return p.final_state; };
  operand.in_place = {};
  operand.in_file = {};
  operand.pool.written_by_empty_sequences = true;
  return operand;
}

OperationSchema make_schema() {
  // What the gradients read is what both read, and all that is written but for the forward call's.
  OperationSchema schema = gated_delta_backward_operation();
  schema.name = "gated_delta_training";
  schema.summary = "a training step of the gated delta rule: gated_delta, then its gradients";
  auto at = schema.operands.begin();
  while (!at->is_output()) ++at;
  at = schema.operands.insert(at, recurrence_output_operand());
  schema.operands.insert(at + 1, final_state_pool());
  return schema;
}

Problem call_of(const Problem& training, Operation operation) {
  Problem problem = step_of(training, operation);
  problem.case_file = training.case_file;
  return problem;
}

Case call_of(const Case& training, Operation operation) {
  Case call;
  call.problem = call_of(training.problem, operation);
  call.sequence_offsets = training.sequence_offsets;
  call.slot_index = training.slot_index;
  for (const auto& [name, values] : training.arrays) {
    if (operation->find(name) != nullptr) call[name] = values;
  }
  return call;
}

}  // namespace

const OperationSchema& gated_delta_training_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

Problem forward_of(const Problem& training) { return call_of(training, gated_delta_operation()); }
Case forward_of(const Case& training) { return call_of(training, gated_delta_operation()); }
Problem backward_of(const Problem& training) {
  return call_of(training, gated_delta_backward_operation());
}
Case backward_of(const Case& training) {
  return call_of(training, gated_delta_backward_operation());
}

}  // namespace gdn
