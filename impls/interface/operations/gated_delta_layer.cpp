#include "interface/operations/gated_delta_layer.h"

#include "interface/error.h"
#include "interface/operations/batch_operands.h"
#include "interface/operations/convolution_operands.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

OperationSchema make_schema() {
  OperationSchema schema;
  schema.name = "gated_delta_layer";
  schema.summary =
      "the chain of a model's layer: convolution, norm of q and k, gates, gated delta rule";
  schema.operands = convolution_operands();
  for (Operand& operand : gate_operands()) schema.operands.push_back(std::move(operand));
  schema.operands.push_back(sequence_offsets_operand());
  schema.operands.push_back(slot_index_operand());
  schema.operands.push_back(recurrence_output_operand());
  schema.operands.push_back(state_operand());
  schema.operands.push_back(convolution_output_operand(true));
  schema.operands.push_back(convolution_window_operand());
  schema.fields = recurrence_fields();
  for (std::string& field : convolution_fields()) schema.fields.push_back(std::move(field));
  schema.validate = [](const Problem& p) {
    validate_recurrence(p);
    if (p.steps == 1) return;
    throw_bad_input("problem: steps=" + std::to_string(p.steps) +
                    ": the qkv of gated_delta_layer holds one key and value per token");
  };
  return schema;
}

}  // namespace

const OperationSchema& gated_delta_layer_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

Problem step_of_layer(const Problem& layer, Operation operation) {
  Problem step;
  step.operation = operation;
  for (const ProblemField& field : problem_fields()) {
    const bool of_step = operation->has_field(field.key) && layer.operation->has_field(field.key);
    if (of_step && field.key != "case") field.set(step, field.get(layer));
  }
  return step;
}

}  // namespace gdn
