#include "interface/operations/causal_conv1d_backward.h"

#include <utility>

#include "interface/case.h"
#include "interface/error.h"
#include "interface/operations/batch_operands.h"
#include "interface/operations/convolution_operands.h"
#include "interface/operations/dimensions.h"

namespace gdn {
namespace {

constexpr const char* kWindow = "conv_state";

// Whether every part lies in the sequence it is of. Other lengths over the same tokens do not, and keep
// the windows they have.
bool are_cut_out(const Case& whole, const std::vector<PartOfSequence>& parts) {
  for (const PartOfSequence& taken : parts) {
    const std::int64_t before = taken.first_token - whole.first_token(taken.sequence);
    if (before < 0 || before + taken.count > whole.length(taken.sequence)) return false;
  }
  return true;
}

// ---- operands

bool reads_windows(const Problem& p) { return p.reads_conv_window(); }
bool writes_windows(const Problem& p) { return p.writes_conv_window(); }

// A pool in the form of the forward call's windows, which this call only reads, or only writes.
Operand window_pool(const char* name, Role role, bool (*present)(const Problem&)) {
  Operand operand = convolution_window_operand();
  operand.name = name;
  operand.role = role;
  operand.present = present;
  operand.in_place = {};
  operand.pool = {};
  operand.judging = {};
  operand.in_file = {};
  return operand;
}

// The gradient with respect to an operand of the forward call, where that is there.
Operand gradient_of(const Operand& operand, JudgedPer per, OverCalls over_calls) {
  return {.name = "d_" + operand.name,
          .role = Role::output,
          .shape = operand.shape,
          .dtype = operand.dtype,
          .present = operand.present,
          .judging = {.per = per, .by_terms = true, .over_calls = over_calls}};
}

OperationSchema make_schema() {
  OperationSchema schema;
  schema.name = "causal_conv1d_backward";
  schema.summary =
      "gradients of the causal convolution: of <conv_output, d_conv_output> + <new window, "
      "d_final_window>";
  schema.carries_backward = true;
  schema.fit_part = fit_convolution_gradients;
  const std::vector<Operand> forward = convolution_operands();
  schema.operands = forward;
  schema.operands.push_back(sequence_offsets_operand());
  schema.operands.push_back(slot_index_operand());
  schema.operands.push_back(has_window_operand());
  Operand window = window_pool(kWindow, Role::input, reads_windows);
  window.in_file = {.when_absent = WhenAbsent::zeros};
  schema.operands.push_back(std::move(window));
  const Operand output = convolution_output_operand(false);
  schema.operands.push_back({.name = "d_conv_output",
                             .shape = output.shape,
                             .dtype = output.dtype,
                             .takes_token_stride = true});
  Operand d_final = window_pool("d_final_window", Role::input, writes_windows);
  d_final.in_place = {.read = writes_windows,
                      .make_read = convolution_window_operand().in_place.make_written};
  schema.operands.push_back(std::move(d_final));
  for (const Operand& operand : forward) {
    const bool of_tokens = operand.name == "qkv";
    schema.operands.push_back(gradient_of(operand,
                                          of_tokens ? JudgedPer::sequence : JudgedPer::tensor,
                                          of_tokens ? OverCalls::later : OverCalls::sum));
    if (!of_tokens) schema.operands.back().dtype = element_type::float32;
  }
  Operand d_initial = window_pool("d_initial_window", Role::output, reads_windows);
  d_initial.carried_to = "d_final_window";
  d_initial.in_place = {.written = reads_windows,
                        .make_written = convolution_window_operand().in_place.make_read};
  d_initial.pool.written_by_empty_sequences = true;
  d_initial.judging = {.per = JudgedPer::sequence, .by_terms = true};
  schema.operands.push_back(std::move(d_initial));
  schema.fields = {"channels",      "slots",  "pool_rows", "state",     "width",
                   "bias",          "act",    "residual",  "weights",   "conv_layout",
                   "window_layout", "window", "fresh",     "magnitudes"};
  schema.stated_fields = {"act"};
  schema.validate = [](const Problem& p) {
    validate_convolution(p);
    if (p.conv_residual != ConvResidual::tensor) return;
    throw_bad_input(
        "problem: residual=tensor: the gradient of such a residual is d_conv_output itself, "
        "expected 0 or 1");
  };
  return schema;
}

}  // namespace

float convolution_input_at(const Case& whole, std::int64_t sequence, std::int64_t channel,
                           std::int64_t i) {
  const Problem& p = whole.problem;
  if (i >= 0) {
    const std::int64_t token = whole.first_token(sequence) + i;
    const std::int64_t at = p.conv_layout == ConvLayout::channels
                                ? token * p.conv_channels() + channel
                                : channel * p.total_tokens() + token;
    return whole["qkv"][static_cast<std::size_t>(at)];
  }
  if (!p.reads_conv_window()) return 0;
  if (p.fresh_windows &&
      whole.other_indices["has_window"][static_cast<std::size_t>(sequence)] == 0) {
    return 0;
  }
  const WindowStrides strides = window_strides(p);
  const std::int64_t at = whole.slot(sequence) * strides.row + channel * strides.channel +
                          (p.window_places() + i) * strides.place;
  return whole[kWindow][static_cast<std::size_t>(at)];
}

void fit_convolution_gradients(const Case& whole, const std::vector<PartOfSequence>& parts,
                               Case& part) {
  fit_convolution_part(whole, parts, part);
  const Problem& p = part.problem;
  if (!p.reads_conv_window() || !are_cut_out(whole, parts)) return;
  const WindowStrides strides = window_strides(p);
  const std::int64_t places = p.window_places();
  // Zeros stand before the sequences of a call that read no windows.
  part[kWindow].resize(static_cast<std::size_t>(p.num_pool_rows() * strides.row));
  for (std::size_t n = 0; n < parts.size(); ++n) {
    const std::int64_t sequence = parts[n].sequence;
    const std::int64_t before = parts[n].first_token - whole.first_token(sequence);
    const std::int64_t slot = part.slot(static_cast<std::int64_t>(n));
    if (slot < 0 || before == 0) continue;
    for (std::int64_t c = 0; c < p.conv_channels(); ++c) {
      for (std::int64_t j = 0; j < places; ++j) {
        const std::int64_t at = slot * strides.row + c * strides.channel + j * strides.place;
        part[kWindow][static_cast<std::size_t>(at)] =
            round_to(p.state_dtype, convolution_input_at(whole, sequence, c, before - places + j));
      }
    }
  }
}

const OperationSchema& causal_conv1d_backward_operation() {
  static const OperationSchema schema = make_schema();
  return schema;
}

CausalConv1dBackwardArguments causal_conv1d_backward_arguments(const Problem& problem,
                                                               const Arguments& arguments) {
  require_operands(problem, arguments);
  CausalConv1dBackwardArguments a;
  a.forward.input = arguments.input("qkv");
  a.forward.input_token_stride = token_stride_of("qkv", problem, arguments);
  a.forward.input_rows = arguments.token_rows("qkv", problem);
  a.forward.weight = arguments.input("conv_weight");
  a.forward.bias = arguments.input("conv_bias");
  a.forward.sequence_offsets = arguments.indices("sequence_offsets");
  a.forward.slot_index = arguments.indices("slot_index");
  a.forward.has_window = arguments.indices("has_window");
  a.forward.state_in = arguments.input(kWindow);
  a.d_output = arguments.input("d_conv_output");
  a.d_output_token_stride = token_stride_of("d_conv_output", problem, arguments);
  a.d_final_window = arguments.input("d_final_window");
  a.d_input = arguments.output("d_qkv");
  a.d_weight = static_cast<float*>(arguments.output("d_conv_weight"));
  a.d_bias = static_cast<float*>(arguments.output("d_conv_bias"));
  a.d_initial_window = arguments.output("d_initial_window");
  return a;
}

}  // namespace gdn
