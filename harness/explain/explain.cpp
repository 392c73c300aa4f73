#include "harness/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "harness/files/case_attributes.h"
#include "harness/files/hdf5_group.h"
#include "harness/run/batches.h"
#include "harness/run/execute.h"
#include "interface/error.h"

namespace gdn {
namespace {

constexpr const char* kViolation = "violation";  // no file but one of tensors has it

bool holds_tensors(const CasePath& path) {
  try {
    return GroupReader(path.file, path.group).has_attribute(kViolation);
  } catch (const Error&) {  // not HDF5, or not this group
    return false;
  }
}

void write_tensor(GroupWriter& file, const std::string& name, const Shape& shape,
                  const std::vector<double>& expected, const std::vector<float>& actual) {
  std::vector<float> difference(actual.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    difference[i] = static_cast<float>(static_cast<double>(actual[i]) - expected[i]);
  }
  file.dataset("reference_" + name, shape, expected);
  file.dataset(name, shape, actual);
  file.dataset(name + "_difference", shape, difference);
}

// A second run from a fresh plan: what differs is a race, or memory read before it was written.
void check_repeat(const CheckedReference& reference, const Implementation& implementation,
                  Device& device, Explanation& result) {
  if (!implementation.description().bitwise_repeatable) return;
  const std::string difference =
      first_difference(reference.inputs().problem, result.outputs,
                       execute(implementation, reference.inputs(), device));
  if (difference.empty()) return;
  if (result.anatomy.violation.empty()) {
    result.anatomy.violation = "a second run differs: " + difference;
  }
  FaultPattern pattern = {
      "repeat", "a race, or memory that is read before it is written", {difference}};
  for (const WrongOutput& output : result.anatomy.outputs) pattern.outputs.push_back(output.name());
  result.patterns.insert(result.patterns.begin(), std::move(pattern));
}

// Whether a run without what is read from pools would tell more.
bool asks_for_probe(const Explanation& explanation, const Problem& problem) {
  return problem.initial_state != InitialState::absent && !explanation.patterns.empty() &&
         explanation.patterns.front().place == "incoming state";
}

bool is_about(const FaultPattern& pattern, const std::string& output) {
  return std::find(pattern.outputs.begin(), pattern.outputs.end(), output) != pattern.outputs.end();
}

}  // namespace

std::vector<std::string> unexplained(const Explanation& explanation) {
  std::vector<std::string> lines;
  for (const WrongOutput& output : explanation.anatomy.outputs) {
    const bool known =
        std::any_of(explanation.patterns.begin(), explanation.patterns.end(),
                    [&](const FaultPattern& pattern) { return is_about(pattern, output.name()); });
    if (known) continue;
    std::string line = output.name();
    if (!output.place().empty()) line += " of " + output.place();
    line += output.by_tokens() ? ", tokens " + output.tokens.to_string()
                               : ", elements " + output.elements.to_string();
    lines.push_back(line + fmt::format(": relative L2 error {:.2e}, {:.2g} of the limit",
                                       output.worst.error.relative_l2, output.excess));
  }
  return lines;
}

Explanation explain(const CheckedReference& reference, Outputs outputs, std::int64_t chunk) {
  Explanation result;
  result.outputs = std::move(outputs);
  result.anatomy = dissect(reference, result.outputs, chunk);
  result.patterns = find_patterns(reference, result.outputs, result.anatomy);
  return result;
}

Explanation explain(const CheckedReference& reference, const Implementation& implementation,
                    Device& device) {
  PlanInfo plan;
  Outputs outputs = execute(implementation, reference.inputs(), device, &plan);
  Explanation result = explain(reference, std::move(outputs), plan.chunk);
  check_repeat(reference, implementation, device, result);
  if (!asks_for_probe(result, reference.inputs().problem)) return result;
  Case without = reference.inputs();
  without.problem.initial_state = InitialState::absent;
  without.problem.case_file.clear();
  if (!implementation.supports(without.problem)) return result;
  const CheckedReference probe_reference(without);
  Explanation probe =
      explain(probe_reference, execute(implementation, without, device, &plan), plan.chunk);
  if (probe.passed()) {
    result.patterns.front().evidence.push_back("run again without the initial state: right");
    return result;
  }
  for (FaultPattern& pattern : probe.patterns) {
    pattern.evidence.push_back("seen when run again without the initial state");
  }
  result.patterns.insert(result.patterns.begin(), probe.patterns.begin(), probe.patterns.end());
  return result;
}

void write_tensors(const CheckedReference& reference, const Explanation& explanation,
                   const OutputsOrigin& origin, const std::string& path) {
  const Case& inputs = reference.inputs();
  const Problem& p = inputs.problem;
  const CasePath target = CasePath::parse(path);
  GroupWriter file(target.file, target.group, GroupWriter::Mode::replace_file);
  file.attribute("problem", p.to_string());
  file.attribute(kViolation, explanation.anatomy.violation);
  write_origin(file, origin);
  const Outputs& outputs = explanation.outputs;
  for (const Operand& operand : p.operation->operands) {
    if (!operand.is_output() || !is_written(operand, p) || operand.hand_over.between_steps)
      continue;
    const std::string& name = operand.output_name();
    const std::vector<float>* actual = outputs.find(name);
    if (actual == nullptr || actual->empty()) continue;
    write_tensor(file, name, extents(operand, p),
                 without_padding(operand, p, reference.wide()[name]),
                 without_padding(operand, p, *actual));
  }
  file.finish();
}

void require_tensors_or_absent(const std::string& path) {
  const CasePath target = CasePath::parse(path);
  std::error_code absent;
  // An empty file, as mktemp makes it, holds nothing to lose.
  if (!std::filesystem::is_regular_file(target.file, absent) ||
      std::filesystem::file_size(target.file, absent) == 0 || holds_tensors(target)) {
    return;
  }
  throw_bad_input(path + ": exists, was not made by explain --save and is not replaced; name " +
                  "another output file");
}

}  // namespace gdn
