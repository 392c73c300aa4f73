// gated_delta: the float64 reference, its work and its limits.
#include "interface/operations/gated_delta.h"

#include "interface/operations/recurrence_operands.h"
#include "reference/operation.h"
#include "reference/recurrence.h"

namespace gdn::reference {
namespace {

template <typename Scalar>
Arrays<Scalar> evaluate_gated_delta(const Case& inputs, const EvaluationOptions& options) {
  Arrays<Scalar> result;
  run_recurrence(inputs, source_of_qkv(inputs), inputs.problem.normalize_qk, options, result);
  return result;
}

Conditioning measure_gated_delta(const Case& inputs, const Arrays<double>&,
                                 const EvaluationOptions& options) {
  return measure_recurrence_conditioning(inputs, source_of_qkv(inputs), inputs.problem.normalize_qk,
                                         options);
}

}  // namespace

const ReferenceOperation& gated_delta_reference() {
  static const ReferenceOperation operation = {
      .operation = gated_delta_operation(),
      .honours = recurrence_options() + recurrence_variants() +
                 HonouredFields{"logits", "output_slots", "checkpoints", "checkpoint_dtype",
                                "state_rounding"},
      .evaluate_float = evaluate_gated_delta<float>,
      .evaluate_double = evaluate_gated_delta<double>,
      .evaluate_long_double = evaluate_gated_delta<long double>,
      .flops = recurrence_flops,
      .conditioning = measure_gated_delta,
      .conditioning_text = recurrence_conditioning_text,
      .limits = [](const Problem& p, const Conditioning& c) { return recurrence_limits(p, c, 1); },
      .widen = widen_recurrence_limits};
  return operation;
}

}  // namespace gdn::reference
