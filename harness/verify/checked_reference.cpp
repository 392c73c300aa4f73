#include "harness/verify/checked_reference.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "harness/run/element_place.h"
#include "harness/verify/worst_unit.h"
#include "interface/batch_part.h"
#include "reference/operation.h"

namespace gdn {
namespace {

// Of the unit: "nan at [78, 1, 5] of [T, Hv, Dv], expected 0.25", the first value that is not finite
// where the rounded reference is, or the reverse. Empty if there is none.
std::string first_not_finite(const Operand& operand, const Case& inputs, const BatchPart& unit,
                             const std::vector<double>& expected,
                             const std::vector<float>& actual) {
  const Problem& p = inputs.problem;
  const auto all = static_cast<std::int64_t>(actual.size());
  const Strips strips = operand.judging.per == JudgedPer::tensor
                            ? Strips{0, 1, all, all}
                            : written_strips_of(operand, inputs, unit);
  std::string found;
  strips.for_each([&](std::int64_t i) {
    if (!found.empty()) return;
    const float value = actual[static_cast<std::size_t>(i)];
    const double reference = expected[static_cast<std::size_t>(i)];
    const float rounded = round_to(operand.dtype(p), static_cast<float>(reference));
    if (std::isfinite(value) && std::isfinite(rounded)) return;
    if (value == rounded) return;  // NaN is unequal to everything
    std::ostringstream text;
    text << value << " at " << element_place(operand, p, i) << ", expected " << reference;
    found = text.str();
  });
  return found;
}

}  // namespace

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

std::string CheckedReference::violation(const reference::ErrorReport& report,
                                        const Outputs& outputs,
                                        const reference::ErrorLimits& limits) const {
  std::string line = reference::violation(report, limits);
  if (line.empty() || report.reference_non_finite > 0) return line;
  // The unit that the line names: over all outputs the furthest above its limit.
  const reference::OutputErrors* of = nullptr;
  double furthest = 0;
  for (const reference::OutputErrors& output : report.outputs) {
    if (output.units.empty()) continue;
    const double ratio = limit_ratio(output, worst_unit(output, limits), limits);
    if (!(ratio > furthest)) continue;
    furthest = ratio;
    of = &output;
  }
  if (of == nullptr) return line;
  const reference::UnitError& unit = worst_unit(*of, limits);
  if (unit.error.non_finite == 0) return line;
  const std::string first = first_not_finite(*of->operand, *inputs_, unit.where,
                                             reference_[of->name()], outputs[of->name()]);
  return first.empty() ? line : line + "; the first: " + first;
}

std::string CheckedReference::check(const Outputs& outputs) const {
  const reference::ErrorReport report = compare(outputs);
  return violation(report, outputs, report.limits);
}

std::string CheckedReference::check_continued(const Outputs& outputs,
                                              std::int64_t roundings) const {
  const reference::ErrorReport report = compare(outputs);
  const Problem& p = inputs_->problem;
  reference::ErrorLimits limits = report.limits;
  if (const auto widen = reference::reference_of(p.operation).widen) {
    widen(limits, p, report.conditioning, static_cast<double>(roundings));
  }
  return violation(report, outputs, limits);
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
