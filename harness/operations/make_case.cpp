#include "harness/operations/make_case.h"

#include <algorithm>

#include "harness/files/case_file.h"
#include "harness/inputs/draw.h"
#include "harness/operations/operation_harness.h"
#include "interface/error.h"

namespace gdn {
namespace {

// `problem` with the fields that may differ from its file taken from `wanted`.
Problem with_overrides(Problem problem, const Problem& wanted) {
  for (const ProblemField& field : problem_fields()) {
    if (may_override_case(field.key)) field.set(problem, field.get(wanted));
  }
  return problem;
}

// How cases of `outer` hold one of `operation`; null if they do not.
const InnerStep* inner_step(Operation operation, Operation outer) {
  for (const InnerStep& step : harness_of(operation).inner_steps) {
    if (step.of == outer) return &step;
  }
  return nullptr;
}

}  // namespace

Case make_case(const Problem& problem) {
  if (problem.case_file.empty()) return generate_case(problem);
  const Problem expected =
      with_overrides(case_problem(problem.case_file, problem.operation), problem);
  if (!(expected == problem)) {
    throw_bad_input("problem: " + problem.to_string() + " is not what its file holds, " +
                    expected.to_string());
  }
  Case c = read_case_as(problem.case_file, problem.token_dtype, problem.state_dtype);
  if (const InnerStep* step = inner_step(problem.operation, c.problem.operation)) {
    c = step->convert(c);
  }
  c.problem = problem;
  return c;
}

bool may_override_case(const std::string& field) {
  static const std::vector<std::string> fields = {"dtype", "out",   "state",
                                                  "ht",    "chunk", "conv_in_place"};
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

std::vector<Operation> operations_of_case(const std::string& path) {
  const Operation own = read_case_problem(path).operation;
  std::vector<Operation> all;
  for (const Operation operation : operations()) {
    if (inner_step(operation, own) != nullptr) all.push_back(operation);
  }
  all.push_back(own);
  return all;
}

Problem case_problem(const std::string& path, Operation operation) {
  const Problem stored = read_case_problem(path);
  if (stored.operation == operation) return stored;
  if (const InnerStep* step = inner_step(operation, stored.operation)) return step->problem(stored);
  throw_bad_input(path + ": holds a case of " + to_string(stored.operation) + ", not of " +
                  to_string(operation));
}

Problem resolve_problem(const std::string& text) {
  const Problem parsed = Problem::parse(text);
  if (parsed.case_file.empty()) {
    require_row_for_each(parsed);
    return parsed;
  }
  Problem problem = case_problem(parsed.case_file, parsed.operation);
  // The text is well formed: Problem::parse has read it.
  std::string rest = text.substr(text.find(':') + 1);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string item = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const std::string key = item.substr(0, item.find('='));
    const ProblemField& field = problem_field(key);
    const std::string before = field.get(problem);
    field.set(problem, item.substr(item.find('=') + 1));
    if (!may_override_case(key) && field.get(problem) != before) {
      throw_bad_input("problem: " + item + " contradicts " + parsed.case_file + ", which holds " +
                      key + "=" + before);
    }
  }
  problem.validate();
  return problem;
}

}  // namespace gdn
