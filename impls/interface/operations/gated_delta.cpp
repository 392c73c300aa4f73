#include "interface/operations/gated_delta.h"

#include "interface/error.h"
#include "interface/operations/arguments_of_steps.h"
#include "interface/operations/batch_operands.h"
#include "interface/operations/checkpoint_operands.h"
#include "interface/operations/dimensions.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

using Dimensions = std::vector<Dimension>;

Dimensions key_shape(const Problem& p) {
  if (p.steps == 1) return {dimension::T, dimension::Hk, dimension::Dk};
  return {dimension::T, dimension::steps, dimension::Hk, dimension::Dk};
}

Dimensions value_shape(const Problem& p) {
  if (p.steps == 1) return {dimension::T, dimension::Hv, dimension::Dv};
  return {dimension::T, dimension::steps, dimension::Hv, dimension::Dv};
}

void validate_gated_delta(const Problem& p) {
  validate_recurrence(p);
  if (p.output_slots == OutputSlots::other && !p.final_state) {
    throw_bad_input("problem: output_slots=other needs ht=1: no final state is written otherwise");
  }
  validate_checkpoints(p);
  validate_state_rounding(p);
}

OperationSchema make_schema() {
  OperationSchema schema;
  schema.name = "gated_delta";
  schema.summary = "the gated delta rule: S <- exp(g) S, S <- S + beta k (v - S^T k)^T, o = S^T q";
  schema.operands = {
      {.name = "q",
       .shape =
           [](const Problem&) {
             return Dimensions{dimension::T, dimension::Hk, dimension::Dk};
           },
       .dtype = element_type::token,
       .takes_token_stride = true},
      {.name = "k", .shape = key_shape, .dtype = element_type::token, .takes_token_stride = true},
      {.name = "v", .shape = value_shape, .dtype = element_type::token, .takes_token_stride = true},
  };
  for (Operand& operand : gate_operands()) schema.operands.push_back(std::move(operand));
  schema.operands.push_back(sequence_offsets_operand());
  schema.operands.push_back(slot_index_operand());
  schema.operands.push_back(output_slot_index_operand());
  schema.operands.push_back(rounding_seed_operand());
  schema.operands.push_back(recurrence_output_operand());
  schema.operands.push_back(state_operand());
  schema.operands.push_back(checkpoint_tokens_operand());
  schema.operands.push_back(checkpoint_states_operand());
  schema.operands.push_back(checkpoint_scales_operand());
  schema.fields = recurrence_fields();
  for (const char* field : {"output_slots", "checkpoints", "checkpoint_dtype", "state_rounding"})
    schema.fields.emplace_back(field);
  schema.validate = validate_gated_delta;
  schema.fit_part = [](const Case& whole, const std::vector<PartOfSequence>& parts, Case& part) {
    fit_checkpoints(whole, parts, part);
    fit_rounding_seeds(whole, parts, part);
  };
  return schema;
}

}  // namespace

const OperationSchema& gated_delta_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

GatedDeltaArguments gated_delta_arguments(const Problem& problem, const Arguments& arguments) {
  require_operands(problem, arguments);
  const auto stride = [&](const char* operand) {
    return token_stride_of(operand, problem, arguments);
  };
  GatedDeltaArguments a = recurrence_arguments(problem, arguments);
  a.query = arguments.input("q");
  a.key = arguments.input("k");
  a.value = arguments.input("v");
  a.query_token_stride = stride("q");
  a.key_token_stride = stride("k");
  a.value_token_stride = stride("v");
  return a;
}

GatedDeltaArguments recurrence_arguments(const Problem& problem, const Arguments& arguments) {
  GatedDeltaArguments a;
  a.gate = arguments.numbers(gate_name(problem), problem);
  a.A_log = arguments.numbers("A_log", problem);
  a.dt_bias = arguments.numbers("dt_bias", problem);
  a.beta = arguments.numbers(beta_name(problem), problem);
  a.sequence_offsets = arguments.indices("sequence_offsets");
  a.slot_index = arguments.indices("slot_index");
  a.output_slot_index = arguments.indices(kOutputSlotIndex);
  a.rounding_seed = arguments.indices(kRoundingSeed);
  const ArrayPointer state = arguments["initial_state"];
  a.state_pool = state.written != nullptr ? state.written : const_cast<void*>(state.read);
  a.output = arguments.output("output");
  a.checkpoint_tokens = arguments.indices(kCheckpointTokens);
  a.checkpoint_states = arguments.output(kCheckpointStates);
  return a;
}

}  // namespace gdn
