// Problems whose inputs are in a case file: completing them, and making their Case.
#include <algorithm>

#include "harness/case_file.h"
#include "harness/inputs.h"
#include "harness/layer_to_delta.h"
#include "interface/error.h"

namespace gdn {
namespace {

const ProblemField& field_of(const std::string& key) {
  for (const ProblemField& field : problem_fields()) {
    if (field.key == key) return field;
  }
  throw_bad_input("problem: unknown field '" + key + "'");
}

// `problem` with the fields that may differ from its file taken from `wanted`.
Problem with_overrides(Problem problem, const Problem& wanted) {
  for (const ProblemField& field : problem_fields()) {
    if (may_override_case(field.key)) field.set(problem, field.get(wanted));
  }
  return problem;
}

}  // namespace

bool may_override_case(const std::string& field) {
  static const std::vector<std::string> fields = {"dtype", "out",   "state",
                                                  "ht",    "chunk", "conv_in_place"};
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

Problem case_problem(const std::string& path, Operation operation) {
  const Problem stored = read_case_problem(path);
  if (stored.operation == operation) return stored;
  if (operation == Operation::gated_delta && stored.operation == Operation::gated_delta_layer) {
    return layer_to_delta(stored);
  }
  throw_bad_input(path + ": holds a case of " + to_string(stored.operation) + ", not of " +
                  to_string(operation));
}

Problem resolve_problem(const std::string& text) {
  const Problem parsed = Problem::parse(text);
  if (parsed.case_file.empty()) return parsed;
  Problem problem = case_problem(parsed.case_file, parsed.operation);
  // The text is well formed: Problem::parse has read it.
  std::string rest = text.substr(text.find(':') + 1);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string item = rest.substr(0, comma);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const std::string key = item.substr(0, item.find('='));
    const ProblemField& field = field_of(key);
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

Case make_case(const Problem& problem) {
  if (problem.case_file.empty()) return generate_case(problem);
  const Problem expected =
      with_overrides(case_problem(problem.case_file, problem.operation), problem);
  if (!(expected == problem)) {
    throw_bad_input("problem: " + problem.to_string() + " is not what its file holds, " +
                    expected.to_string());
  }
  Case c = read_case_as(problem.case_file, problem.token_dtype, problem.state_dtype);
  if (c.problem.operation != problem.operation) c = layer_to_delta(c);
  c.problem = problem;
  return c;
}

}  // namespace gdn
