// gated_delta_layer_backward: the float64 reference, its work and its limits.
//
// The gradients of the steps, from the last one to the first, each on what the others made in the wide
// scalar: of the gated norm where there is one, of the recurrence, of the convolution. A gradient that one
// step hands on has terms, the size of what it sums, and these go on through the next step as errors
// that are independent of one another do (backward_steps.h). So an output's terms hold what every step
// before it rounds. Those of the norm's gradients hold what errors of the recurrence's output do to
// them: beside a row of small values these are large, and so is the gradient, which is divided by the
// row's size.
//
// Limits. Every output is the gradient of a recurrence, or made of one, behind a convolution whose output
// may be rounded to the token dtype: twice what gated_delta_backward is allowed (operations/
// gated_delta_backward.cpp), as gated_delta_layer is allowed twice what gated_delta is. The roundings of
// convolution and norm, and those of sums over the tokens, are beside it in float32.
#include "interface/operations/gated_delta_layer_backward.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "reference/backward_steps.h"
#include "reference/causal_conv1d.h"
#include "reference/gated_rms_norm.h"
#include "reference/operation.h"

namespace gdn::reference {

const ReferenceOperation& causal_conv1d_backward_reference();
const ReferenceOperation& gated_delta_backward_reference();
const ReferenceOperation& gated_rms_norm_backward_reference();

namespace {

// What the recurrence reads, kept beside the outputs: its conditioning is measured from it.
constexpr const char* kConvolved = "conv_output";

template <typename Scalar>
QkvSource<Scalar> source_of(const Problem& p, const std::vector<Scalar>& conv_output) {
  const std::int64_t channels = p.conv_channels(), keys = p.num_key_heads * p.key_head_dim;
  const Scalar* first = conv_output.data();
  return {first, first + keys, first + 2 * keys, channels, channels, channels, 1};
}

// The forward call's convolution: windows are read, and none is written.
template <typename Scalar>
std::vector<Scalar> convolve(const Case& inputs, int threads) {
  Case again = inputs;
  again.problem = convolution_again(inputs.problem);
  return causal_conv1d<Scalar>(again, threads).output;
}

// Of every key head of the pairs all value heads: their gradients are sums over these.
EvaluationOptions with_whole_groups(const Problem& p, EvaluationOptions options) {
  const std::int64_t group = p.value_heads_per_key_head();
  std::vector<SequenceHead> whole;
  for (const SequenceHead& pair : options.pairs) {
    const std::int64_t first = pair.value_head / group * group;
    for (std::int64_t h = first; h < first + group; ++h) {
      if (std::find(whole.begin(), whole.end(), SequenceHead{pair.sequence, h}) == whole.end()) {
        whole.push_back({pair.sequence, h});
      }
    }
  }
  options.pairs = std::move(whole);
  return options;
}

// d_q, d_k and d_v as channels of the convolution's output.
template <typename Scalar>
std::vector<Scalar> as_channels(const Problem& p, const Arrays<Scalar>& of, const char* suffix) {
  const std::int64_t widths[] = {p.num_key_heads * p.key_head_dim, p.num_key_heads * p.key_head_dim,
                                 p.num_value_heads * p.value_head_dim};
  const char* const names[] = {"d_q", "d_k", "d_v"};
  const std::int64_t channels = p.conv_channels();
  std::vector<Scalar> values(static_cast<std::size_t>(p.total_tokens() * channels));
  std::int64_t first = 0;
  for (std::size_t i = 0; i < std::size(names); first += widths[i], ++i) {
    const std::vector<Scalar>& part = of[names[i] + std::string(suffix)];
    for (std::int64_t t = 0; t < p.total_tokens(); ++t) {
      std::copy_n(part.begin() + t * widths[i], widths[i], values.begin() + t * channels + first);
    }
  }
  return values;
}

template <typename Scalar>
void move_to(Arrays<Scalar>& result, Arrays<Scalar>& from, const std::string& name,
             const std::string& as) {
  for (const char* suffix : {"", "_terms"}) result[as + suffix] = std::move(from[name + suffix]);
}

template <typename Scalar>
Arrays<Scalar> evaluate_layer_backward(const Case& inputs, const EvaluationOptions& given) {
  const Problem& p = inputs.problem;
  const EvaluationOptions options = with_whole_groups(p, given);
  std::vector<Scalar> convolved = convolve<Scalar>(inputs, options.threads);
  const std::vector<Scalar> d_output(inputs["d_output"].begin(), inputs["d_output"].end());
  RecurrenceStep<Scalar, Scalar> step{source_of(p, convolved), true, {d_output.data()}};
  Arrays<Scalar> result, of_norm;
  if (p.gated_norm) {
    const Arrays<Scalar> rows = recurrence_outputs(inputs, step, options);
    of_norm = norm_gradients(inputs, rows["output"].data(), rows["output_terms"].data(), options);
    step.d_output = {of_norm["d_x"].data(), of_norm["d_x_terms"].data()};
    move_to(result, of_norm, "d_z", "d_z");
    move_to(result, of_norm, "d_weight", "d_norm_weight");
  }
  Arrays<Scalar> of_recurrence = recurrence_gradients(inputs, step, options);
  const std::vector<Scalar> d_convolved = as_channels(p, of_recurrence, "");
  const std::vector<Scalar> terms = as_channels(p, of_recurrence, "_terms");
  for (auto& [name, values] : of_recurrence) {
    const bool is_handed_on =
        name.rfind("d_q", 0) == 0 || name.rfind("d_k", 0) == 0 || name.rfind("d_v", 0) == 0;
    if (!is_handed_on) result[name] = std::move(values);
  }
  Arrays<Scalar> of_convolution =
      convolution_gradients<Scalar>(inputs, {d_convolved.data(), terms.data()}, options);
  for (auto& [name, values] : of_convolution) result[name] = std::move(values);
  result[kConvolved] = std::move(convolved);
  return result;
}

Conditioning measure_layer_backward(const Case& inputs, const Arrays<double>& reference,
                                    const EvaluationOptions& options) {
  Conditioning conditioning = measure_recurrence_conditioning(
      inputs, source_of(inputs.problem, reference[kConvolved]), true, options);
  conditioning.readouts.clear();  // gradients are judged by their terms instead
  return conditioning;
}

ErrorLimits layer_backward_limits(const Problem& p, const Conditioning& conditioning) {
  Conditioning without_readout = conditioning;
  without_readout.readouts.clear();
  const double of_recurrence = recurrence_limits(p, without_readout, 4)["output"].relative_l2;
  const double float32 = unit_roundoff(DType::float32);
  const double tokens = static_cast<double>(p.total_tokens());
  const double of_token = 24 * float32 + (p.gated_norm ? 2 * norm_roundoffs(p) * float32 : 0);
  ErrorLimits limits;
  for (const Operand& operand : p.operation->operands) {
    if (!operand.is_output() || !is_present(operand, p)) continue;
    const bool is_sum = operand.judging.per == JudgedPer::tensor;
    const double compute =
        of_recurrence + of_token + (is_sum ? 2 * std::sqrt(tokens) * float32 : 0);
    const bool in_tokens = unit_roundoff(operand.dtype(p)) <= unit_roundoff(p.token_dtype);
    const double rounding = in_tokens ? 0 : unit_roundoff(operand.dtype(p));
    limits[operand.output_name()] = {std::min(compute + rounding, kLargestLimit), 0};
  }
  return limits;
}

// Where a call is cut, what either of the two is carried by is rounded: the state and its gradient, the
// windows and theirs.
void widen_layer_backward(ErrorLimits& limits, const Problem& p, const Conditioning& conditioning,
                          double roundings) {
  gated_delta_backward_reference().widen(limits, p, conditioning, roundings);
  causal_conv1d_backward_reference().widen(limits, p, conditioning, roundings);
}

double flops_of(const Problem& p) {
  double flops = convolution_flops(p) +
                 gated_delta_backward_reference().flops(recurrence_gradients_of(p)) +
                 causal_conv1d_backward_reference().flops(convolution_gradients_of(p));
  if (!p.gated_norm) return flops;
  return flops + 2 * recurrence_flops(p) +
         gated_rms_norm_backward_reference().flops(norm_gradients_of(p));
}

}  // namespace

const ReferenceOperation& gated_delta_layer_backward_reference() {
  static const ReferenceOperation operation = {
      .operation = gated_delta_layer_backward_operation(),
      .honours = {"slots",         "pool_rows",  "state",     "layout",  "h0",    "ht",
                  "norm",          "pool_pad",   "scale",     "gate",    "bound", "beta",
                  "width",         "bias",       "act",       "weights", "fresh", "window",
                  "window_layout", "gated_norm", "norm_gate", "norm_eps"},
      .evaluate_float = evaluate_layer_backward<float>,
      .evaluate_double = evaluate_layer_backward<double>,
      .evaluate_long_double = evaluate_layer_backward<long double>,
      .flops = flops_of,
      .conditioning = measure_layer_backward,
      .conditioning_text = recurrence_conditioning_text,
      .limits = layer_backward_limits,
      .widen = widen_layer_backward};
  return operation;
}

}  // namespace gdn::reference
