// causal_conv1d: the float64 reference, its work and its limits.
#include "interface/operations/causal_conv1d.h"

#include "interface/operations/convolution_operands.h"
#include "reference/causal_conv1d.h"
#include "reference/operation.h"

namespace gdn::reference {
namespace {

template <typename Scalar>
Arrays<Scalar> evaluate_convolution(const Case& inputs, const EvaluationOptions& options) {
  ConvResult<Scalar> conv = causal_conv1d<Scalar>(inputs, options.threads);
  Arrays<Scalar> result;
  result["conv_output"] = std::move(conv.output);
  if (!conv.state.empty()) result["conv_state"] = std::move(conv.state);
  if (!conv.checkpoint_windows.empty()) {
    result["checkpoint_windows"] = std::move(conv.checkpoint_windows);
  }
  return result;
}

}  // namespace

const ReferenceOperation& causal_conv1d_reference() {
  static const ReferenceOperation operation = {
      .operation = causal_conv1d_operation(),
      .honours = convolution_options() + convolution_window_options() +
                 HonouredFields{"channels", "residual", "weights", "window_order", "checkpoints"},
      .evaluate_float = evaluate_convolution<float>,
      .evaluate_double = evaluate_convolution<double>,
      .evaluate_long_double = evaluate_convolution<long double>,
      .flops = convolution_flops,
      .conditioning = nullptr,
      .limits =
          [](const Problem& p, const Conditioning&) {
            return ErrorLimits{{"conv_output", convolution_limit(p)}};
          },
      .widen = [](ErrorLimits& limits, const Problem& p, const Conditioning&,
                  double) { widen_convolution_limit(limits["conv_output"], p); }};
  return operation;
}

}  // namespace gdn::reference
