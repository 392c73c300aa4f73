// gated_delta_layer: the float64 reference, its work and its limits. The convolution's output is
// handed on in the wide scalar; its channels are [q: Hk Dk | k: Hk Dk | v: Hv Dv]. So is the
// recurrence's output where the gated norm follows.
#include "interface/operations/gated_delta_layer.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "interface/operations/convolution_operands.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/causal_conv1d.h"
#include "reference/gated_rms_norm.h"
#include "reference/operation.h"
#include "reference/parallel.h"
#include "reference/recurrence.h"

namespace gdn::reference {
namespace {

// q, k and v as channels of the convolution's output.
template <typename Scalar>
QkvSource<Scalar> source_of(const Problem& p, const std::vector<Scalar>& conv_output) {
  const bool channels_fastest = p.conv_layout == ConvLayout::channels;
  const std::int64_t token_stride = channels_fastest ? p.conv_channels() : 1;
  const std::int64_t channel_stride = channels_fastest ? 1 : p.total_tokens();
  const std::int64_t key_dims = p.num_key_heads * p.key_head_dim;
  const Scalar* channels = conv_output.data();
  return {channels,
          channels + key_dims * channel_stride,
          channels + 2 * key_dims * channel_stride,
          token_stride,
          token_stride,
          token_stride,
          channel_stride};
}

// What the norm takes, kept beside the outputs: the norm's growth is measured from it.
constexpr const char* kBeforeNorm = "output_before_norm";

// body(first element of the row) for the tokens of a pair.
template <typename Body>
void for_rows(const Case& inputs, const SequenceHead& pair, const Body& body) {
  const Problem& p = inputs.problem;
  const std::int64_t first = inputs.first_token(pair.sequence);
  for (std::int64_t t = first; t < first + inputs.length(pair.sequence); ++t) {
    body((t * p.num_value_heads + pair.value_head) * p.value_head_dim);
  }
}

template <typename Scalar>
void apply_norm(const Case& inputs, const EvaluationOptions& options, Arrays<Scalar>& result) {
  const Problem& p = inputs.problem;
  const std::vector<SequenceHead> pairs = pairs_of(p, options);
  std::vector<Scalar> before_norm = result["output"];  // a further array moves the others
  result[kBeforeNorm] = std::move(before_norm);
  const Scalar* const before = result[kBeforeNorm].data();
  Scalar* const output = result["output"].data();
  const float* const z = inputs["z"].data();
  const float* const weight = inputs["norm_weight"].data();
  parallel_for(static_cast<std::int64_t>(pairs.size()), options.threads, [&](std::int64_t i) {
    for_rows(inputs, pairs[static_cast<std::size_t>(i)],
             [&](std::int64_t at) { gated_norm_row(p, before + at, z + at, weight, output + at); });
  });
}

// With o the recurrence's output, r = sqrt(mean(o^2) + eps) of a token and w the weight times the
// gate, an error e of o becomes one of w e / r (less what the norm takes off along o). For errors of
// one size in all n elements of the pair, the relative error grows by
//
//     sqrt( sum(o^2) / n * sum((w / r)^2) / sum(y^2) ).
//
// Tokens of zeros are left out: nothing in them rounds.
double norm_growth(const Case& inputs, const Arrays<double>& reference, const SequenceHead& pair) {
  const Problem& p = inputs.problem;
  const std::int64_t width = p.value_head_dim;
  const std::vector<double>& before = reference[kBeforeNorm];
  const std::vector<double>& output = reference["output"];
  double before_squares = 0;
  double factor_squares = 0;
  double output_squares = 0;
  double count = 0;
  for_rows(inputs, pair, [&](std::int64_t at) {
    const double* const o = before.data() + at;
    double squares = 0;
    for (std::int64_t j = 0; j < width; ++j) squares += o[j] * o[j];
    if (!(squares > 0)) return;
    const double root = norm_root<double>(p, o);
    for (std::int64_t j = 0; j < width; ++j) {
      const double factor = static_cast<double>(inputs["norm_weight"][j]) *
                            norm_gate_of<double>(p.norm_gate, inputs["z"][at + j]) / root;
      factor_squares += factor * factor;
      output_squares += output[at + j] * output[at + j];
    }
    before_squares += squares;
    count += static_cast<double>(width);
  });
  if (!(output_squares > 0)) return 1;
  return std::max(1.0, std::sqrt(before_squares / count * factor_squares / output_squares));
}

template <typename Scalar>
Arrays<Scalar> evaluate_layer(const Case& inputs, const EvaluationOptions& options) {
  ConvResult<Scalar> conv = causal_conv1d<Scalar>(inputs, options.threads);
  Arrays<Scalar> result;
  run_recurrence(inputs, source_of(inputs.problem, conv.output), true, options, result);
  if (inputs.problem.gated_norm) apply_norm(inputs, options, result);
  result["conv_output"] = std::move(conv.output);
  if (!conv.state.empty()) result["conv_state"] = std::move(conv.state);
  if (!conv.checkpoint_windows.empty()) {
    result["checkpoint_windows"] = std::move(conv.checkpoint_windows);
  }
  return result;
}

Conditioning measure_layer(const Case& inputs, const Arrays<double>& reference,
                           const EvaluationOptions& options) {
  Conditioning result = measure_recurrence_conditioning(
      inputs, source_of(inputs.problem, reference["conv_output"]), true, options);
  if (!inputs.problem.gated_norm) return result;
  const std::vector<SequenceHead> pairs = pairs_of(inputs.problem, options);
  result.norm_growths.resize(pairs.size(), 1.0);
  parallel_for(static_cast<std::int64_t>(pairs.size()), options.threads, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    result.norm_growths[at] = norm_growth(inputs, reference, pairs[at]);
  });
  return result;
}

ErrorLimits layer_limits(const Problem& p, const Conditioning& c) {
  ErrorLimits limits = recurrence_limits(p, c, 2);
  limits["conv_output"] = convolution_limit(p);
  if (!p.gated_norm) return limits;
  OutputLimit& output = limits["output"];
  output.relative_l2 += norm_roundoffs(p) * unit_roundoff(DType::float32);
  output.behind_norm = true;
  return limits;
}

}  // namespace

const ReferenceOperation& gated_delta_layer_reference() {
  static const ReferenceOperation operation = {
      .operation = gated_delta_layer_operation(),
      .honours = recurrence_options() + recurrence_variants() + convolution_options() +
                 convolution_window_options() +
                 HonouredFields{"gated_norm", "norm_gate", "norm_eps", "weights", "logits",
                                "checkpoints", "checkpoint_dtype", "state_rounding"},
      .evaluate_float = evaluate_layer<float>,
      .evaluate_double = evaluate_layer<double>,
      .evaluate_long_double = evaluate_layer<long double>,
      .flops =
          [](const Problem& p) {
            return recurrence_flops(p) + convolution_flops(p) +
                   (p.gated_norm ? gated_norm_flops(p) : 0);
          },
      .conditioning = measure_layer,
      .conditioning_text = recurrence_conditioning_text,
      // Its convolution, norm and gates round as well, and may hand on tensors in the token dtype.
      .limits = layer_limits,
      .widen =
          [](ErrorLimits& limits, const Problem& p, const Conditioning& c, double roundings) {
            widen_recurrence_limits(limits, p, c, roundings);
            widen_convolution_limit(limits["conv_output"], p);
          }};
  return operation;
}

}  // namespace gdn::reference
