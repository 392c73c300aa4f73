#include "interface/chain.h"

#include <algorithm>

namespace gdn {

Problem step_of(const Problem& whole, Operation step) {
  Problem problem;
  problem.operation = step;
  for (const ProblemField& field : problem_fields()) {
    const bool shared = step->has_field(field.key) && whole.operation->has_field(field.key);
    if (shared && field.key != "case") field.set(problem, field.get(whole));
  }
  return problem;
}

bool is_present(const ChainStep& step, const Problem& whole) {
  return step.present == nullptr || step.present(whole);
}

bool is_present(const HandedOn& array, const Chain& chain, const Problem& whole) {
  return std::any_of(
      array.readers.begin(), array.readers.end(),
      [&](const HandedOn::Reader& reader) { return is_present(chain.steps[reader.step], whole); });
}

const std::string& name_in_whole(const ChainStep& step, const std::string& operand) {
  for (const ChainStep::Renamed& renamed : step.renamed) {
    if (renamed.of_step == operand) return renamed.of_whole;
  }
  return operand;
}

}  // namespace gdn
