#include "interface/operations/gated_rms_norm_backward.h"

#include "interface/operations/batch_operands.h"
#include "interface/operations/dimensions.h"

namespace gdn {
namespace {

// The gradient with respect to an operand of the forward call.
Operand gradient_of(const Operand& operand) {
  return {.name = "d_" + operand.name,
          .role = Role::output,
          .shape = operand.shape,
          .dtype = operand.dtype,
          .judging = {.per = JudgedPer::head, .by_terms = true}};
}

OperationSchema make_schema() {
  OperationSchema schema;
  schema.name = "gated_rms_norm_backward";
  schema.summary = "gradients of the gated norm: of <y, d_y>";
  const Operand& x = gated_rms_norm_operation().at("x");
  Operand d_y = x;
  d_y.name = "d_y";
  Operand d_weight = gradient_of(norm_weight_operand());
  d_weight.dtype = element_type::float32;
  d_weight.judging.per = JudgedPer::tensor;
  d_weight.judging.over_calls = OverCalls::sum;
  schema.operands = {x,
                     norm_gate_operand(),
                     norm_weight_operand(),
                     sequence_offsets_operand(),
                     d_y,
                     gradient_of(x),
                     gradient_of(norm_gate_operand()),
                     d_weight};
  schema.fields = {"norm_gate", "norm_eps"};
  schema.stated_fields = {"norm_gate"};
  return schema;
}

}  // namespace

const OperationSchema& gated_rms_norm_backward_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

GatedRmsNormBackwardArguments gated_rms_norm_backward_arguments(const Problem& problem,
                                                                const Arguments& arguments) {
  require_operands(problem, arguments);
  GatedRmsNormBackwardArguments a;
  a.forward.x = arguments.input("x");
  a.forward.z = arguments.input("z");
  a.forward.x_token_stride = token_stride_of("x", problem, arguments);
  a.forward.z_token_stride = token_stride_of("z", problem, arguments);
  a.forward.weight = arguments.input("weight");
  a.forward.sequence_offsets = arguments.indices("sequence_offsets");
  a.d_y = arguments.input("d_y");
  a.d_y_token_stride = token_stride_of("d_y", problem, arguments);
  a.d_x = arguments.output("d_x");
  a.d_z = arguments.output("d_z");
  a.d_weight = static_cast<float*>(arguments.output("d_weight"));
  return a;
}

}  // namespace gdn
