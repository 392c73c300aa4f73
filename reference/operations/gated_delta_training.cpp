// gated_delta_training: the references of gated_delta and of gated_delta_backward on one step's inputs,
// each with its own limits.
#include "interface/operations/gated_delta_training.h"

#include <algorithm>

#include "interface/operations/gated_delta.h"
#include "reference/operation.h"

namespace gdn::reference {

const ReferenceOperation& gated_delta_reference();
const ReferenceOperation& gated_delta_backward_reference();

namespace {

// gated_delta leaves the row of a sequence without tokens as it is; here the row is another pool's.
template <typename Scalar>
void keep_without_tokens(const Case& inputs, std::vector<Scalar>& final_state) {
  const Problem& p = inputs.problem;
  const bool is_read = p.initial_state != InitialState::absent;
  const std::vector<float>& initial = inputs["initial_state"];
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    if (inputs.slot(n) < 0 || inputs.length(n) > 0) continue;
    const auto first = static_cast<std::size_t>(inputs.slot(n) * p.state_row_stride());
    const auto used = static_cast<std::size_t>(p.state_row_stride() - p.pool_row_padding);
    for (std::size_t i = first; i < first + used; ++i) {
      final_state[i] = is_read ? Scalar(initial[i]) : Scalar(0);
    }
  }
}

template <typename Scalar>
Arrays<Scalar> evaluate_both(const Case& inputs, const EvaluationOptions& options) {
  Arrays<Scalar> result = evaluate<Scalar>(backward_of(inputs), options);
  Arrays<Scalar> forward = evaluate<Scalar>(forward_of(inputs), options);
  keep_without_tokens(inputs, forward["final_state"]);
  for (auto& [name, values] : forward) result[name] = std::move(values);
  return result;
}

// The forward call's, with the readouts that its output is judged by.
Conditioning measure_both(const Case& inputs, const Arrays<double>& reference,
                          const EvaluationOptions& options) {
  return gated_delta_reference().conditioning(inputs, reference, options);
}

// Of each output, the limit that the call has which makes it.
template <typename LimitsOf>
ErrorLimits of_each_call(const Problem& p, const LimitsOf& limits_of) {
  ErrorLimits limits = limits_of(gated_delta_backward_reference(), backward_of(p));
  const ErrorLimits forward = limits_of(gated_delta_reference(), forward_of(p));
  for (const char* name : {"output", "final_state"}) limits[name] = limit_of(forward, name);
  return limits;
}

ErrorLimits limits_of_both(const Problem& p, const Conditioning& conditioning) {
  return of_each_call(p, [&](const ReferenceOperation& call, const Problem& problem) {
    return call.limits(problem, conditioning);
  });
}

// Where a step is cut, the initial state of the later tokens is rounded, as the forward call's is between
// two calls.
void widen_both(ErrorLimits& limits, const Problem& p, const Conditioning& conditioning,
                double roundings) {
  const ErrorLimits before = limits;
  limits = of_each_call(p, [&](const ReferenceOperation& call, const Problem& problem) {
    ErrorLimits widened = before;
    call.widen(widened, problem, conditioning, roundings);
    return widened;
  });
}

}  // namespace

const ReferenceOperation& gated_delta_training_reference() {
  static const ReferenceOperation operation = {
      .operation = gated_delta_training_operation(),
      .honours = gated_delta_backward_reference().honours,
      .evaluate_float = evaluate_both<float>,
      .evaluate_double = evaluate_both<double>,
      .evaluate_long_double = evaluate_both<long double>,
      .flops =
          [](const Problem& p) {
            return gated_delta_reference().flops(forward_of(p)) +
                   gated_delta_backward_reference().flops(backward_of(p));
          },
      .conditioning = measure_both,
      .conditioning_text = gated_delta_reference().conditioning_text,
      .limits = limits_of_both,
      .widen = widen_both};
  return operation;
}

}  // namespace gdn::reference
