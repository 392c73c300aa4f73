#include "reference/reference.h"

#include <algorithm>
#include <cmath>

#include "interface/channel_quantization.h"
#include "interface/error.h"
#include "interface/gate_arithmetic.h"
#include "interface/gate_encoding_table.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/operation.h"

namespace gdn::reference {

const ReferenceOperation& reference_of(Operation operation) {
  for (const ReferenceOperation* reference : reference_operations()) {
    if (reference->operation == operation) return *reference;
  }
  throw_bad_input("reference: none of " + operation->name);
}

static bool is_judged_per(Operation operation, JudgedPer unit) {
  return std::any_of(operation->operands.begin(), operation->operands.end(),
                     [unit](const Operand& o) { return o.is_output() && o.judging.per == unit; });
}

bool is_judged_by_head(Operation operation) {
  return is_judged_per(operation, JudgedPer::head) || is_judged_by_key_head(operation);
}

bool is_judged_by_key_head(Operation operation) {
  return is_judged_per(operation, JudgedPer::key_head);
}

double evaluation_flops(const Problem& problem) {
  return reference_of(problem.operation).flops(problem);
}

template <typename Scalar>
Gates<Scalar> decode_gates(const Case& inputs) {
  const Problem& p = inputs.problem;
  const std::vector<float>& gate = inputs[gate_name(p)];
  const std::vector<float>& beta = inputs[beta_name(p)];
  const bool has_rate_and_bias = entry_of(p.gate_encoding).has_rate_and_bias;
  const float* A_log = has_rate_and_bias ? inputs["A_log"].data() : nullptr;
  const float* dt_bias = has_rate_and_bias ? inputs["dt_bias"].data() : nullptr;
  Gates<Scalar> gates;
  gates.log_decay.resize(gate.size());
  gates.beta.resize(beta.size());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    // Which of a token's gates: dt_bias has one value for each, A_log one per head.
    const std::size_t of_token = i % static_cast<std::size_t>(p.gates_per_token());
    const Scalar rate = has_rate_and_bias ? Scalar(A_log[of_token / p.gates_per_head()]) : Scalar();
    const Scalar bias = has_rate_and_bias ? Scalar(dt_bias[of_token]) : Scalar();
    gates.log_decay[i] = gate_arithmetic::decode_log_decay(p.gate_encoding, Scalar(gate[i]), rate,
                                                           bias, Scalar(p.decay_bound));
  }
  for (std::size_t i = 0; i < beta.size(); ++i) {
    gates.beta[i] = gate_arithmetic::decode_beta(p.beta_encoding, Scalar(beta[i]));
  }
  return gates;
}

// The case is valid, and the reference knows every field that it sets.
static const ReferenceOperation& reference_for(const Case& inputs) {
  validate(inputs);
  const ReferenceOperation& reference = reference_of(inputs.problem.operation);
  const std::string field = first_not_honoured(inputs.problem, reference.honours);
  if (!field.empty()) {
    throw Error(ErrorKind::unsupported, "reference: does not honour " + field);
  }
  return reference;
}

// Of an output that the problem has with scales: the scale of each channel, the values in units of it, which are not
// rounded, and beside the scales how large one is whose channel has all its values in one element.
template <typename Scalar>
static Arrays<Scalar> with_scales(const Problem& problem, Arrays<Scalar> result) {
  const Operand* const scaled = scaled_output(problem);
  if (scaled == nullptr) return result;
  const ChannelLayout layout = channel_layout(*scaled, problem);
  std::vector<Scalar>& values = result[scaled->name];
  std::vector<Scalar> scales(static_cast<std::size_t>(layout.channels()));
  std::vector<Scalar> terms(scales.size());
  for (std::int64_t channel = 0; channel < layout.channels(); ++channel) {
    Scalar largest = 0, squares = 0;
    for (std::int64_t i = 0; i < layout.extent; ++i) {
      const Scalar value = values[static_cast<std::size_t>(layout.place(channel, i))];
      squares += value * value;
      // Not std::max: NaN, which says that the pair was not evaluated, is to stay.
      if (!(std::abs(value) <= largest)) largest = std::abs(value);
    }
    const Scalar scale = largest / kLargestInt8;
    scales[static_cast<std::size_t>(channel)] = scale;
    terms[static_cast<std::size_t>(channel)] = std::sqrt(squares) / kLargestInt8;
    if (scale == 0) continue;
    for (std::int64_t i = 0; i < layout.extent; ++i) {
      values[static_cast<std::size_t>(layout.place(channel, i))] /= scale;
    }
  }
  result[scaled->scaled.by] = std::move(scales);
  result[scaled->scaled.by + "_terms"] = std::move(terms);
  return result;
}

template <>
Arrays<float> evaluate(const Case& inputs, const EvaluationOptions& options) {
  return with_scales(inputs.problem, reference_for(inputs).evaluate_float(inputs, options));
}
template <>
Arrays<double> evaluate(const Case& inputs, const EvaluationOptions& options) {
  return with_scales(inputs.problem, reference_for(inputs).evaluate_double(inputs, options));
}
template <>
Arrays<long double> evaluate(const Case& inputs, const EvaluationOptions& options) {
  return with_scales(inputs.problem, reference_for(inputs).evaluate_long_double(inputs, options));
}

template Gates<float> decode_gates(const Case&);
template Gates<double> decode_gates(const Case&);
template Gates<long double> decode_gates(const Case&);

}  // namespace gdn::reference
