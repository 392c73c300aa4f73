#include "interface/operations/gated_delta_layer.h"

#include "interface/error.h"
#include "interface/operations/batch_operands.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/checkpoint_operands.h"
#include "interface/operations/convolution_operands.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_rms_norm.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

bool ends_in_norm(const Problem& p) { return p.gated_norm; }

void append_norm_operands(std::vector<Operand>& operands) {
  Operand gate = norm_gate_operand();
  gate.present = ends_in_norm;
  gate.in_file.infer_presence = [](Problem& p, bool present) { p.gated_norm = present; };
  operands.push_back(std::move(gate));
  Operand weight = norm_weight_operand();
  weight.name = "norm_weight";
  weight.present = ends_in_norm;
  operands.push_back(std::move(weight));
}

OperationSchema make_schema() {
  OperationSchema schema;
  schema.name = "gated_delta_layer";
  schema.summary =
      "the chain of a model's layer: convolution, norm of q and k, gates, gated delta rule, gated "
      "norm";
  schema.operands = convolution_operands();
  for (Operand& operand : gate_operands()) schema.operands.push_back(std::move(operand));
  append_norm_operands(schema.operands);
  schema.operands.push_back(sequence_offsets_operand());
  schema.operands.push_back(slot_index_operand());
  schema.operands.push_back(has_window_operand());
  schema.operands.push_back(rounding_seed_operand());
  schema.operands.push_back(recurrence_output_operand());
  schema.operands.push_back(state_operand());
  schema.operands.push_back(convolution_output_operand(true));
  schema.operands.push_back(convolution_window_operand());
  schema.operands.push_back(checkpoint_tokens_operand());
  schema.operands.push_back(checkpoint_states_operand());
  schema.operands.push_back(checkpoint_scales_operand());
  schema.operands.push_back(checkpoint_windows_operand());
  schema.fields = recurrence_fields();
  for (std::string& field : convolution_fields()) schema.fields.push_back(std::move(field));
  for (const char* field :
       {"gated_norm", "norm_gate", "norm_eps", "checkpoints", "checkpoint_dtype", "state_rounding"})
    schema.fields.push_back(field);
  schema.fit_part = [](const Case& whole, const std::vector<PartOfSequence>& parts, Case& part) {
    fit_convolution_part(whole, parts, part);
    fit_checkpoints(whole, parts, part);
    fit_rounding_seeds(whole, parts, part);
  };
  schema.validate = [](const Problem& p) {
    validate_recurrence(p);
    validate_convolution(p);
    validate_checkpoints(p);
    validate_state_rounding(p);
    if (!p.gated_norm && (p.norm_gate != NormGate::silu || p.norm_eps != Problem().norm_eps)) {
      throw_bad_input("problem: norm_gate and norm_eps of gated_delta_layer need gated_norm=1");
    }
    if (p.steps == 1) return;
    throw_bad_input("problem: steps=" + std::to_string(p.steps) +
                    ": the qkv of gated_delta_layer holds one key and value per token");
  };
  return schema;
}

// ---- the steps

Problem convolution_step(const Problem& layer, DType) {
  Problem convolution = step_of(layer, causal_conv1d_operation());
  if (!has_windows(layer)) convolution.checkpoints = 0;  // they are of the state alone
  return convolution;
}

// The norm takes its input in the token dtype, as it takes z.
Problem recurrence_step(const Problem& layer, DType handed_on) {
  Problem delta = step_of(layer, gated_delta_operation());
  delta.output_dtype = layer.gated_norm ? layer.token_dtype : layer.effective_output_dtype();
  delta.token_dtype = handed_on;
  if (delta.output_dtype == delta.token_dtype) delta.output_dtype.reset();
  delta.normalize_qk = true;  // always a step of the layer
  return delta;
}

Problem norm_step(const Problem& layer, DType) {
  return step_of(layer, gated_rms_norm_operation());
}

std::int64_t key_channels(const Problem& layer) { return layer.num_key_heads * layer.key_head_dim; }

enum Step : std::size_t { kConvolution, kRecurrence, kNorm };

Chain make_chain() {
  Chain chain;
  chain.operation = gated_delta_layer_operation();
  chain.steps = {{.operation = causal_conv1d_operation(), .problem = convolution_step},
                 {.operation = gated_delta_operation(), .problem = recurrence_step},
                 {.operation = gated_rms_norm_operation(),
                  .problem = norm_step,
                  .present = ends_in_norm,
                  .asked_for_by = "gated_norm",
                  .renamed = {{"weight", "norm_weight"}, {"y", "output"}}}};
  // The channels are [q: Hk Dk | k: Hk Dk | v: Hv Dv].
  chain.handed_on = {
      {.writer = kConvolution,
       .in_token_dtype = "conv_output",
       .in_float32 = "conv_intermediate",
       .on_request = "conv_output",
       .readers = {{kRecurrence, "q", nullptr},
                   {kRecurrence, "k", key_channels},
                   {kRecurrence, "v", [](const Problem& p) { return 2 * key_channels(p); }}}},
      {.writer = kRecurrence,
       .in_token_dtype = "output",
       .in_float32 = {},
       .readers = {{kNorm, "x", nullptr}}}};
  return chain;
}

}  // namespace

const OperationSchema& gated_delta_layer_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

const Chain& gated_delta_layer_chain() {
  static const Chain chain = make_chain();
  return chain;
}

}  // namespace gdn
