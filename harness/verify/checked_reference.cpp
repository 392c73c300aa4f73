#include "harness/verify/checked_reference.h"

#include <algorithm>

#include "reference/operation.h"

namespace gdn {

CheckedReference::CheckedReference(const Case& inputs, const VerifyOptions& options)
    : inputs_(&inputs), options_(options) {
  validate(inputs);
  const Problem& p = inputs.problem;
  const bool by_head = reference::is_judged_by_head(p.operation);
  total_pairs_ = p.num_sequences() * (by_head ? p.num_value_heads : 1);
  evaluation_.threads = options.threads;
  const double flops = reference::evaluation_flops(p);
  if (by_head && flops > options.most_reference_flops) {
    const double share = options.most_reference_flops / flops;
    const auto count = static_cast<std::int64_t>(share * static_cast<double>(total_pairs_));
    evaluation_.pairs =
        reference::sample_pairs(p, std::max<std::int64_t>(count, 2), options.sample_seed);
  }
  reference_ = reference::evaluate<double>(inputs, evaluation_);
  conditioning_ = reference::measure_conditioning(inputs, reference_, evaluation_);
}

reference::ErrorReport CheckedReference::compare(const Outputs& outputs) const {
  return reference::compare(*inputs_, reference_, outputs, conditioning_, evaluation_);
}

std::string CheckedReference::check(const Outputs& outputs) const {
  const reference::ErrorReport report = compare(outputs);
  return reference::violation(report, report.limits);
}

std::string CheckedReference::check_continued(const Outputs& outputs,
                                              std::int64_t roundings) const {
  const reference::ErrorReport report = compare(outputs);
  const Problem& p = inputs_->problem;
  reference::ErrorLimits limits = report.limits;
  if (const auto widen = reference::reference_of(p.operation).widen) {
    widen(limits, p, report.conditioning, static_cast<double>(roundings));
  }
  return reference::violation(report, limits);
}

std::string CheckedReference::coverage() const {
  const bool whole = evaluation_.pairs.empty();
  const std::string total = std::to_string(total_pairs_);
  if (whole) return "all " + total + " pairs";
  std::string text = "a random sample of " + std::to_string(evaluation_.pairs.size()) + " of " +
                     total + " pairs (seed " + std::to_string(options_.sample_seed) + ")";
  for (const Operand& operand : inputs_->problem.operation->operands) {
    if (!operand.is_output() || operand.judging.per != JudgedPer::tensor) continue;
    if (operand.hand_over.between_steps || !is_present(operand, inputs_->problem)) continue;
    text += "; " + operand.output_name() + ", which is over the whole batch, is not judged";
  }
  return text;
}

}  // namespace gdn
