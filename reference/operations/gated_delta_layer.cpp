// gated_delta_layer: the float64 reference, its work and its limits. The convolution's output is
// handed on in the wide scalar; its channels are [q: Hk Dk | k: Hk Dk | v: Hv Dv].
#include "interface/operations/gated_delta_layer.h"

#include "interface/operations/convolution_operands.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/causal_conv1d.h"
#include "reference/operation.h"
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

template <typename Scalar>
Arrays<Scalar> evaluate_layer(const Case& inputs, const EvaluationOptions& options) {
  ConvResult<Scalar> conv = causal_conv1d<Scalar>(inputs, options.threads);
  Arrays<Scalar> result;
  run_recurrence(inputs, source_of(inputs.problem, conv.output), true, options, result);
  result["conv_output"] = std::move(conv.output);
  result["conv_state"] = std::move(conv.state);
  return result;
}

Conditioning measure_layer(const Case& inputs, const Arrays<double>& reference,
                           const EvaluationOptions& options) {
  return measure_recurrence_conditioning(
      inputs, source_of(inputs.problem, reference["conv_output"]), true, options);
}

}  // namespace

const ReferenceOperation& gated_delta_layer_reference() {
  static const ReferenceOperation operation = {
      .operation = gated_delta_layer_operation(),
      .honours = recurrence_options() + recurrence_variants() + convolution_options(),
      .evaluate_float = evaluate_layer<float>,
      .evaluate_double = evaluate_layer<double>,
      .evaluate_long_double = evaluate_layer<long double>,
      .flops = [](const Problem& p) { return recurrence_flops(p) + convolution_flops(p); },
      .conditioning = measure_layer,
      // Its convolution, norm and gates round as well, and may hand on tensors in the token dtype.
      .limits =
          [](const Problem& p, const Conditioning& c) {
            ErrorLimits limits = recurrence_limits(p, c, 2);
            limits["conv_output"] = convolution_limit(p);
            return limits;
          },
      .widen =
          [](ErrorLimits& limits, const Problem& p, const Conditioning& c, double roundings) {
            widen_recurrence_limits(limits, p, c, roundings);
            widen_convolution_limit(limits["conv_output"], p);
          }};
  return operation;
}

}  // namespace gdn::reference
