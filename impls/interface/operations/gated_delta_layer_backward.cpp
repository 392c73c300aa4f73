#include "interface/operations/gated_delta_layer_backward.h"

#include <cmath>
#include <utility>

#include "interface/chain.h"
#include "interface/error.h"
#include "interface/gate_arithmetic.h"
#include "interface/operations/batch_operands.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/causal_conv1d_backward.h"
#include "interface/operations/convolution_operands.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_backward.h"
#include "interface/operations/gated_delta_layer.h"
#include "interface/operations/gated_rms_norm.h"
#include "interface/operations/gated_rms_norm_backward.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

// ---- the state at the beginning of a part: keys and values are channels of the convolution

double channel_at(const Case& c, std::int64_t sequence, std::int64_t token, std::int64_t channel) {
  const Problem& p = c.problem;
  const std::int64_t first = token - c.first_token(sequence) - (p.conv_width - 1);
  double z = p.conv_bias ? double{c["conv_bias"][static_cast<std::size_t>(channel)]} : 0;
  for (std::int64_t j = 0; j < p.conv_width; ++j) {
    const auto at = static_cast<std::size_t>(channel * p.conv_width + j);
    z += double{c["conv_weight"][at]} *
         double{convolution_input_at(c, sequence, channel, first + j)};
  }
  return p.activation == Activation::none ? z : z * gate_arithmetic::sigmoid(z);
}

std::vector<double> key_at(const Case& c, std::int64_t sequence, std::int64_t token,
                           std::int64_t key_head) {
  const Problem& p = c.problem;
  const std::int64_t first = (p.num_key_heads + key_head) * p.key_head_dim;
  std::vector<double> k;
  double squares = 1e-6;
  for (std::int64_t i = 0; i < p.key_head_dim; ++i) {
    k.push_back(channel_at(c, sequence, token, first + i));
    squares += k.back() * k.back();
  }
  for (double& x : k) x /= std::sqrt(squares);
  return k;
}

double value_at(const Case& c, std::int64_t sequence, std::int64_t token, std::int64_t head,
                std::int64_t element) {
  const Problem& p = c.problem;
  const std::int64_t first = 2 * p.num_key_heads * p.key_head_dim;
  return channel_at(c, sequence, token, first + head * p.value_head_dim + element);
}

void fit_part(const Case& whole, const std::vector<PartOfSequence>& parts, Case& part) {
  fit_convolution_gradients(whole, parts, part);
  fit_recurrence_gradients(whole, parts, part, {key_at, value_at});
}

// ---- operands

bool ends_in_norm(const Problem& p) { return p.gated_norm; }

Operand of_norm(Operand operand) {
  operand.present = ends_in_norm;
  return operand;
}

Operand named(Operand operand, const char* name) {
  operand.name = name;
  return operand;
}

OperationSchema make_schema() {
  const OperationSchema& convolution = causal_conv1d_backward_operation();
  const OperationSchema& recurrence = gated_delta_backward_operation();
  const OperationSchema& norm = gated_rms_norm_backward_operation();
  OperationSchema schema;
  schema.name = "gated_delta_layer_backward";
  schema.summary =
      "gradients of a model's layer: of <output, d_output> + <final_state, d_final_state> + "
      "<new window, d_final_window>";
  schema.carries_backward = true;
  schema.fit_part = fit_part;
  std::vector<Operand>& operands = schema.operands;
  const std::vector<Operand> of_convolution = convolution_operands(), gates = gate_operands();
  operands = of_convolution;
  operands.insert(operands.end(), gates.begin(), gates.end());
  operands.push_back(of_norm(norm_gate_operand()));
  operands.back().in_file.infer_presence = [](Problem& p, bool present) { p.gated_norm = present; };
  operands.push_back(of_norm(named(norm_weight_operand(), "norm_weight")));
  operands.push_back(sequence_offsets_operand());
  operands.push_back(slot_index_operand());
  operands.push_back(has_window_operand());
  operands.push_back(recurrence.at("initial_state"));
  operands.push_back(convolution.at("conv_state"));
  operands.push_back(recurrence.at("d_output"));
  operands.push_back(recurrence.at("d_final_state"));
  operands.push_back(convolution.at("d_final_window"));
  for (const Operand& operand : of_convolution) {
    operands.push_back(convolution.at("d_" + operand.name));
  }
  for (const Operand& operand : gates) operands.push_back(recurrence.at("d_" + operand.name));
  operands.push_back(of_norm(norm.at("d_z")));
  operands.push_back(of_norm(named(norm.at("d_weight"), "d_norm_weight")));
  operands.push_back(recurrence.at("d_initial_state"));
  operands.back().judging.by_terms =
      true;  // a norm's gradient is ill-conditioned where rows are small
  operands.push_back(convolution.at("d_initial_window"));
  schema.fields = {"slots",     "pool_rows", "state",         "layout",     "h0",        "ht",
                   "norm",      "pool_pad",  "scale",         "gate",       "bound",     "beta",
                   "gates",     "betas",     "width",         "bias",       "act",       "weights",
                   "fresh",     "window",    "window_layout", "gated_norm", "norm_gate", "norm_eps",
                   "magnitudes"};
  schema.validate = [](const Problem& p) {
    validate_recurrence(p);
    validate_convolution(p);
    if (p.gated_norm || (p.norm_gate == NormGate::silu && p.norm_eps == Problem().norm_eps)) return;
    throw_bad_input(
        "problem: norm_gate and norm_eps of gated_delta_layer_backward need gated_norm=1");
  };
  return schema;
}

}  // namespace

const OperationSchema& gated_delta_layer_backward_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

Problem layer_of(const Problem& gradients) {
  Problem layer = step_of(gradients, gated_delta_layer_operation());
  layer.case_file = gradients.case_file;
  return layer;
}

Case layer_of(const Case& gradients) {
  Case layer;
  layer.problem = layer_of(gradients.problem);
  layer.sequence_offsets = gradients.sequence_offsets;
  layer.slot_index = gradients.slot_index;
  layer.other_indices = gradients.other_indices;
  for (const auto& [name, values] : gradients.arrays) {
    if (layer.problem.operation->find(name) != nullptr) layer[name] = values;
  }
  return layer;
}

Problem convolution_again(const Problem& gradients) {
  Problem convolution = step_of(gradients, causal_conv1d_operation());
  if (gradients.reads_conv_window()) {
    convolution.conv_window = ConvWindow::read;
  } else {
    convolution.conv_window = ConvWindow::none;
    convolution.window_layout = Problem().window_layout;
  }
  return convolution;
}

Problem recurrence_again(const Problem& gradients) {
  Problem recurrence = step_of(gradients, gated_delta_operation());
  recurrence.normalize_qk = true;
  recurrence.final_state = false;
  return recurrence;
}

Problem norm_gradients_of(const Problem& gradients) {
  return step_of(gradients, gated_rms_norm_backward_operation());
}

Problem recurrence_gradients_of(const Problem& gradients) {
  Problem recurrence = step_of(gradients, gated_delta_backward_operation());
  recurrence.normalize_qk = true;
  return recurrence;
}

Problem convolution_gradients_of(const Problem& gradients) {
  return step_of(gradients, causal_conv1d_backward_operation());
}

}  // namespace gdn
