#include "harness/problems/grid.h"

#include <algorithm>
#include <set>

#include "harness/inputs/draw.h"
#include "harness/operations/make_case.h"
#include "harness/problems/presets.h"
#include "interface/error.h"

namespace gdn {
namespace {

std::map<std::string, std::vector<std::string>> merged_axes(const GridSpec& spec) {
  std::map<std::string, std::vector<std::string>> axes;
  for (const std::string& name : spec.presets) {
    for (const auto& [axis, values] : find_preset(name).axes) {
      // A preset says more than some operations look at.
      if (spec.operation->has_field(axis)) axes[axis] = values;
    }
  }
  for (const auto& [axis, values] : spec.axes) axes[axis] = values;
  return axes;
}

void require_known(const std::map<std::string, std::vector<std::string>>& axes) {
  std::vector<std::string> keys;
  for (const ProblemField& field : problem_fields()) keys.push_back(field.key);
  for (const auto& entry : axes) {
    if (std::find(keys.begin(), keys.end(), entry.first) == keys.end()) {
      throw_bad_input("axis '" + entry.first + "' is unknown (did you mean '" +
                      nearest_name(entry.first, keys) + "'?)");
    }
  }
}

// Every combination of the axes' values on top of `base`.
std::vector<Problem> product_of(const Problem& base,
                                const std::map<std::string, std::vector<std::string>>& axes) {
  std::vector<Problem> product = {base};
  for (const ProblemField& field : problem_fields()) {
    const auto axis = axes.find(field.key);
    if (axis == axes.end()) continue;
    std::vector<Problem> wider;
    for (const Problem& problem : product) {
      for (const std::string& value : axis->second) {
        wider.push_back(problem);
        field.set(wider.back(), value);
      }
    }
    product = std::move(wider);
  }
  return product;
}

// A preset says heads, and an axis channels that belong to none.
void drop_replaced(Problem& problem, const GridSpec& spec) {
  static const Problem defaults;
  for (const ProblemField& field : problem_fields()) {
    if (!is_replaced(field, problem) || spec.axes.count(field.key) > 0) continue;
    field.set(problem, field.get(defaults));
  }
}

std::vector<Problem> problems_of_case(const std::string& path, const GridSpec& spec) {
  if (spec.operation_given) return {case_problem(path, spec.operation)};
  std::vector<Problem> problems;
  for (const Operation operation : operations_of_case(path)) {
    problems.push_back(case_problem(path, operation));
  }
  return problems;
}

}  // namespace

std::vector<std::string> split_values(const std::string& axis, const std::string& text) {
  std::vector<std::string> values;
  std::size_t first = 0;
  while (true) {
    const std::size_t comma = text.find(',', first);
    values.push_back(text.substr(first, comma == std::string::npos ? comma : comma - first));
    if (values.back().empty()) {
      throw_bad_input(axis + ": an empty value in '" + text + "'");
    }
    if (comma == std::string::npos) return values;
    first = comma + 1;
  }
}

std::vector<Problem> expand(const GridSpec& spec) {
  std::vector<Problem> problems;
  std::set<std::string> seen;
  const auto add = [&](const Problem& problem) {
    if (seen.insert(problem.to_string()).second) problems.push_back(problem);
  };
  for (const std::string& text : spec.problems) add(resolve_problem(text));

  require_known(spec.axes);
  std::map<std::string, std::vector<std::string>> overrides;
  for (const auto& [axis, values] : spec.axes) {
    if (may_override_case(axis)) overrides[axis] = values;
  }
  for (const std::string& path : spec.cases) {
    for (const Problem& base : problems_of_case(path, spec)) {
      for (const Problem& problem : product_of(base, overrides)) {
        problem.validate();
        add(problem);
      }
    }
  }

  const bool only_overrides = spec.presets.empty() && overrides.size() == spec.axes.size();
  if (!spec.cases.empty() && only_overrides) return problems;
  const auto axes = merged_axes(spec);
  require_known(axes);
  if (axes.empty() && !spec.problems.empty()) return problems;
  Problem base;
  base.operation = spec.operation;
  for (Problem problem : product_of(base, axes)) {
    drop_replaced(problem, spec);
    problem.validate();
    require_row_for_each(problem);
    add(problem);
  }
  return problems;
}

}  // namespace gdn
