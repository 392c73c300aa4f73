#include "harness/explain.h"

#include <filesystem>
#include <system_error>

#include "harness/hdf5_group.h"
#include "harness/inputs.h"
#include "harness/invariances.h"
#include "interface/error.h"

namespace gdn {
namespace {

// Rows of `stride` values cut to their first `used`.
template <typename T>
std::vector<T> without_padding(const std::vector<T>& pool, std::int64_t stride, std::int64_t used) {
  std::vector<T> packed;
  for (std::size_t row = 0; row < pool.size(); row += static_cast<std::size_t>(stride)) {
    const auto begin = pool.begin() + static_cast<std::ptrdiff_t>(row);
    packed.insert(packed.end(), begin, begin + used);
  }
  return packed;
}

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
  if (actual.empty()) return;
  std::vector<float> rounded(expected.begin(), expected.end());
  std::vector<float> difference(actual.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    difference[i] = static_cast<float>(static_cast<double>(actual[i]) - expected[i]);
  }
  file.dataset("reference_" + name, shape, rounded);
  file.dataset(name, shape, actual);
  file.dataset(name + "_difference", shape, difference);
}

// A second run from a fresh plan: what differs is a race, or memory read before it was written.
void check_repeat(const CheckedReference& reference, const Implementation& implementation,
                  Device& device, Explanation& result) {
  if (!implementation.description().bitwise_repeatable) return;
  const std::string difference =
      first_difference(result.outputs, execute(implementation, reference.inputs(), device));
  if (difference.empty()) return;
  if (result.anatomy.violation.empty()) {
    result.anatomy.violation = "a second run differs: " + difference;
  }
  result.patterns.insert(
      result.patterns.begin(),
      {"repeat", "a race, or memory that is read before it is written", {difference}});
}

bool asks_for_probe(const Explanation& explanation, const Problem& problem) {
  return problem.initial_state != InitialState::absent && !explanation.patterns.empty() &&
         explanation.patterns.front().place == "incoming state";
}

}  // namespace

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
  const auto& wide = reference.wide();
  if (p.operation != Operation::causal_conv1d) {
    write_tensor(file, "output", {p.total_tokens(), p.num_value_heads, p.value_head_dim},
                 wide.output, outputs.output);
    const std::int64_t stride = p.state_row_stride();
    const std::int64_t used = stride - p.pool_row_padding;
    Shape shape = {static_cast<std::int64_t>(inputs.state_pool.size()) / stride, p.num_value_heads,
                   p.key_head_dim, p.value_head_dim};
    if (p.state_layout == StateLayout::vk) std::swap(shape[2], shape[3]);
    if (p.final_state) {
      write_tensor(file, "final_state", shape, without_padding(wide.state_pool, stride, used),
                   without_padding(outputs.state_pool, stride, used));
    }
  }
  if (p.operation != Operation::gated_delta) {
    const Shape tokens = p.conv_layout == ConvLayout::time
                             ? Shape{p.conv_channels(), p.total_tokens()}
                             : Shape{p.total_tokens(), p.conv_channels()};
    write_tensor(file, "conv_output", tokens, wide.conv_output, outputs.conv_output);
    const std::int64_t window = p.conv_width - 1;
    write_tensor(
        file, "conv_state",
        {static_cast<std::int64_t>(outputs.conv_state.size()) / (p.conv_channels() * window),
         p.conv_channels(), window},
        wide.conv_state, outputs.conv_state);
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
