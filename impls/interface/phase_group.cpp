#include "interface/phase_group.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interface/error.h"

namespace gdn {
namespace {

class InTurn final : public PhaseGroup {
 public:
  InTurn(std::vector<Plan*> plans, int phase) : plans_(std::move(plans)), phase_(phase) {}
  const Info& info() const override { return info_; }
  void run() override {
    for (Plan* const plan : plans_) plan->run_phase(phase_);
  }

 private:
  std::vector<Plan*> plans_;
  int phase_;
  Info info_;
};

// What plans of a group may differ in, beside how inputs are drawn. Of lengths only the number and the sum
// count: plans follow the offsets that they find.
bool may_differ(const ProblemField& field) {
  constexpr std::array<std::string_view, 5> keys = {"seq", "pool_pad", "pool_rows", "seed", "case"};
  return field.of_inputs || std::find(keys.begin(), keys.end(), field.key) != keys.end();
}

/// "heads=2/4, expected heads=1/2": the first thing in which a problem is not as the first plan's; or empty.
std::string first_difference(const Problem& problem, const Problem& first) {
  const auto counted = [](std::int64_t is, std::int64_t expected, const char* what) {
    return std::to_string(is) + what + ", expected " + std::to_string(expected);
  };
  if (problem.operation != first.operation) {
    return to_string(problem.operation) + ", expected " + to_string(first.operation);
  }
  for (const ProblemField& field : problem_fields()) {
    if (may_differ(field) || field.get(problem) == field.get(first)) continue;
    return field.key + "=" + field.get(problem) + ", expected " + field.key + "=" +
           field.get(first);
  }
  if (problem.num_sequences() != first.num_sequences()) {
    return counted(problem.num_sequences(), first.num_sequences(), " sequences");
  }
  if (problem.total_tokens() != first.total_tokens()) {
    return counted(problem.total_tokens(), first.total_tokens(), " tokens");
  }
  return "";
}

}  // namespace

std::unique_ptr<PhaseGroup> group_phase(const Implementation& implementation,
                                        std::span<const PlannedProblem> plans, int phase,
                                        Device& device) {
  const Description& description = implementation.description();
  const std::size_t phases = description.operation->phases.size();
  if (phases == 0) {
    throw Error(ErrorKind::unsupported,
                "group: " + to_string(description.operation) + " has no phases");
  }
  if (phase < 0 || phase >= static_cast<int>(phases)) {
    throw_bad_input("group: phase " + std::to_string(phase) + ", expected 0.." +
                    std::to_string(phases - 1));
  }
  if (plans.empty()) throw_bad_input("group: no plans, expected one or more");
  std::vector<Plan*> all;
  for (const PlannedProblem& planned : plans) {
    const std::string named = "group: plan " + std::to_string(all.size());
    if (planned.plan == nullptr || planned.problem == nullptr) {
      throw_bad_input(named + " is null");
    }
    const auto same = std::find(all.begin(), all.end(), planned.plan);
    if (same != all.end()) {
      throw_bad_input(named + " is plan " + std::to_string(same - all.begin()) +
                      ", expected each once");
    }
    const std::string difference = first_difference(*planned.problem, *plans.front().problem);
    if (!difference.empty()) {
      throw Error(ErrorKind::unsupported, named + " has " + difference + " as plan 0");
    }
    all.push_back(planned.plan);
  }
  if (auto together = all.front()->group(all, phase, device)) return together;
  return std::make_unique<InTurn>(std::move(all), phase);
}

}  // namespace gdn
