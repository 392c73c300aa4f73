#include "interface/operations/gated_rms_norm.h"

#include "interface/operations/batch_operands.h"
#include "interface/operations/dimensions.h"

namespace gdn {
namespace {

using Dimensions = std::vector<Dimension>;

Dimensions heads_shape(const Problem&) { return {dimension::T, dimension::Hv, dimension::Dv}; }

OperationSchema make_schema() {
  OperationSchema schema;
  schema.name = "gated_rms_norm";
  schema.summary = "the norm of the recurrence's output over each value head, times a gate";
  schema.operands = {
      {.name = "x", .shape = heads_shape, .dtype = element_type::token, .takes_token_stride = true},
      norm_gate_operand(),
      norm_weight_operand(),
      sequence_offsets_operand(),
      {.name = "y",
       .role = Role::output,
       .shape = heads_shape,
       .dtype = element_type::output,
       .judging = {.per = JudgedPer::head}},
  };
  schema.fields = {"out", "norm_gate", "norm_eps"};
  schema.stated_fields = {"norm_gate"};
  return schema;
}

}  // namespace

Operand norm_gate_operand() {
  return {
      .name = "z", .shape = heads_shape, .dtype = element_type::token, .takes_token_stride = true};
}

Operand norm_weight_operand() {
  return {.name = "weight",
          .shape = [](const Problem&) { return Dimensions{dimension::Dv}; },
          .dtype = element_type::token};
}

const OperationSchema& gated_rms_norm_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

GatedRmsNormArguments gated_rms_norm_arguments(const Problem& problem, const Arguments& arguments) {
  require_operands(problem, arguments);
  GatedRmsNormArguments a;
  a.x = arguments.input("x");
  a.z = arguments.input("z");
  a.x_token_stride = token_stride_of("x", problem, arguments);
  a.z_token_stride = token_stride_of("z", problem, arguments);
  a.weight = arguments.input("weight");
  a.sequence_offsets = arguments.indices("sequence_offsets");
  a.y = arguments.output("y");
  return a;
}

}  // namespace gdn
