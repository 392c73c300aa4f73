#include "harness/explain/untold_forms.h"

#include <fmt/format.h>

namespace gdn {
namespace {

Outputs narrowed(const Arrays<double>& wide) {
  Outputs outputs;
  for (const auto& [name, values] : wide) outputs[name].assign(values.begin(), values.end());
  return outputs;
}

}  // namespace

std::vector<UntoldForm> untold_forms(const CheckedReference& reference,
                                     const std::set<Hypothesis>& told) {
  const Case& inputs = reference.inputs();
  std::vector<UntoldForm> untold;
  if (!has_hypotheses(inputs.problem)) return untold;
  for (const Hypothesis form : all_hypotheses()) {
    if (told.count(form) > 0) continue;
    std::string why = why_not_posed(form, inputs.problem);
    if (why.empty()) {
      const Outputs wrong = narrowed(supposed_outputs(form, inputs, reference.evaluation()));
      if (!reference.check(wrong).empty()) continue;
      why = "its outputs are within the limits";
    }
    untold.push_back({form, why});
  }
  return untold;
}

std::string rounded_state_untold(const Problem& problem, const reference::ErrorReport& report) {
  if (problem.state_dtype != DType::float32) return "";
  for (const reference::OutputErrors& output : report.outputs) {
    if (output.name() != "final_state") continue;
    // A float16 number is within its unit roundoff, and rounded values within a part of it.
    const double error = output.worst().error.relative_l2;
    if (!(error >= unit_roundoff(DType::float16) / 4)) return "";
    return fmt::format(
        "a state rounded to 16 bits inside the call (the error of final_state, {:.1e}, is that of "
        "16-bit arithmetic)",
        error);
  }
  return "";
}

}  // namespace gdn
