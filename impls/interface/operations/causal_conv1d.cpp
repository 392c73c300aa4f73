#include "interface/operations/causal_conv1d.h"

#include "interface/error.h"
#include "interface/operations/arguments_of_steps.h"
#include "interface/operations/batch_operands.h"
#include "interface/operations/checkpoint_operands.h"
#include "interface/operations/convolution_operands.h"
#include "interface/operations/dimensions.h"

namespace gdn {
namespace {

OperationSchema make_schema() {
  OperationSchema schema;
  schema.name = "causal_conv1d";
  schema.summary =
      "the short causal convolution over channels, with its window carried between calls";
  schema.operands = convolution_operands();
  schema.operands.push_back(convolution_residual_operand());
  schema.operands.push_back(sequence_offsets_operand());
  schema.operands.push_back(slot_index_operand());
  schema.operands.push_back(has_window_operand());
  schema.operands.push_back(window_position_operand());
  schema.operands.push_back(convolution_output_operand(false));
  schema.operands.back().hand_over.replaced_by = "conv_intermediate";
  // What a layer's first pass hands on: not rounded, tokens outermost.
  schema.operands.push_back(
      {.name = "conv_intermediate",
       .role = Role::output,
       .shape =
           [](const Problem&) {
             return std::vector<Dimension>{
                 dimension::T, {"channels", [](const Problem& p) { return p.conv_channels(); }}};
           },
       .dtype = element_type::float32,
       .hand_over = {.between_steps = true}});
  schema.operands.push_back(convolution_window_operand());
  schema.operands.push_back(checkpoint_tokens_operand());
  schema.operands.push_back(checkpoint_windows_operand());
  schema.fields = convolution_fields();
  schema.fields.emplace_back("channels");      // those of a layer belong to its heads
  schema.fields.emplace_back("residual");      // a layer's q, k and v have none
  schema.fields.emplace_back("window_order");  // a layer's windows have their oldest input first
  schema.fields.emplace_back("checkpoints");
  schema.stated_fields = {"act"};
  schema.validate = [](const Problem& p) {
    validate_convolution(p);
    validate_checkpoints(p);
    if (p.checkpoints == 0 || has_windows(p)) return;
    throw_bad_input("problem: checkpoints=" + std::to_string(p.checkpoints) +
                    ": window=none has no windows, expected another");
  };
  schema.fit_part = [](const Case& whole, const std::vector<PartOfSequence>& parts, Case& part) {
    fit_convolution_part(whole, parts, part);
    fit_checkpoints(whole, parts, part);
  };
  return schema;
}

}  // namespace

const OperationSchema& causal_conv1d_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

CausalConv1dArguments causal_conv1d_arguments(const Problem& problem, const Arguments& arguments) {
  require_operands(problem, arguments);
  CausalConv1dArguments a = convolution_arguments(problem, arguments);
  a.intermediate = static_cast<float*>(arguments.output("conv_intermediate"));
  return a;
}

CausalConv1dArguments convolution_arguments(const Problem& problem, const Arguments& arguments) {
  CausalConv1dArguments a;
  a.output = arguments.output("conv_output");
  a.input = arguments.input("qkv");
  a.input_token_stride = token_stride_of("qkv", problem, arguments);
  a.input_rows = arguments.token_rows("qkv", problem);
  a.output_rows = arguments.token_rows("conv_output", problem);
  if (problem.conv_residual == ConvResidual::tensor) {
    a.residual = arguments.input("residual");
    a.residual_token_stride = token_stride_of("residual", problem, arguments);
    a.residual_rows = arguments.token_rows("residual", problem);
  }
  a.weight = arguments.input("conv_weight");
  a.bias = arguments.input("conv_bias");
  a.sequence_offsets = arguments.indices("sequence_offsets");
  a.slot_index = arguments.indices("slot_index");
  a.has_window = arguments.indices("has_window");
  a.window_position = arguments.indices("window_position");
  if (problem.reads_conv_window()) a.state_in = arguments["conv_state"].read;
  if (problem.writes_conv_window()) a.state_out = arguments["conv_state"].written;
  a.checkpoint_tokens = arguments.indices(kCheckpointTokens);
  a.checkpoint_windows = arguments.output(kCheckpointWindows);
  return a;
}

}  // namespace gdn
