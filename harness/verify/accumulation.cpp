#include "harness/verify/accumulation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/run/batches.h"
#include "harness/run/execute.h"
#include "interface/batch_part.h"
#include "interface/error.h"

namespace gdn {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Sums of squares over some elements of a pair.
struct Squares {
  double error = 0;
  double reference = 0;
  void add(double expected, double actual) {
    error += (actual - expected) * (actual - expected);
    reference += expected * expected;
  }
  // An error where the reference is zero has no relation to it: infinite, as errors.h has it.
  double relative() const {
    if (error == 0) return 0;
    return reference > 0 ? std::sqrt(error / reference) : std::numeric_limits<double>::infinity();
  }
};

// What the operand is judged by: pairs, or where it has no value heads sequences.
std::vector<BatchPart> units_of(const Operand& operand, const CheckedReference& reference) {
  const Problem& p = reference.inputs().problem;
  std::vector<BatchPart> units;
  if (operand.judging.per == JudgedPer::head) {
    for (const reference::SequenceHead& pair : reference::pairs_of(p, reference.evaluation())) {
      units.push_back({pair.sequence, pair.value_head});
    }
  } else if (operand.judging.per == JudgedPer::sequence) {
    for (const std::int64_t n : reference::sequences_of(p, reference.evaluation())) {
      units.push_back({n});
    }
  }
  return units;
}

// NaN wins, so that it is seen.
double worse(double a, double b) { return std::isnan(a) || std::isnan(b) ? kNaN : std::max(a, b); }

}  // namespace

std::vector<TokenWindow> decades(std::int64_t longest_sequence) {
  std::vector<TokenWindow> windows;
  for (std::int64_t first = 0, end = 1; first < longest_sequence; first = end, end *= 10) {
    windows.push_back({first, std::min(end, longest_sequence)});
  }
  return windows;
}

std::string not_token_by_token(const Problem& problem) {
  if (!carries_state(problem)) return "nothing is carried from call to call";
  if (!is_carried_token_by_token(problem)) return "the operation is not called token by token";
  return "";
}

Outputs decoded_token_by_token(const Implementation& implementation,
                               const CheckedReference& reference, Device& device,
                               const std::function<void(std::int64_t)>& step) {
  const Case& inputs = reference.inputs();
  if (const std::string why = not_token_by_token(inputs.problem); !why.empty()) {
    throw Error(ErrorKind::unsupported, why);
  }
  PlannedCase planned(implementation, single_token(inputs, 0, nullptr), device);
  Outputs of_step = planned.run();
  // What calls hand over and the whole has. Rows of pools that no call writes keep their values; all
  // else must be written.
  Outputs outputs;
  for (const auto& [name, values] : of_step) {
    const std::vector<double>* const wide = reference.wide().find(name);
    if (wide == nullptr) continue;  // written for the sake of the next call alone
    const Operand* const operand = inputs.problem.operation->find_output(name);
    outputs[name] = operand->role == Role::in_place
                        ? inputs[operand->name]
                        : std::vector<float>(wide->size(), std::numeric_limits<float>::quiet_NaN());
  }
  place_token(inputs, 0, of_step, &outputs);
  for (std::int64_t t = 1; t < inputs.problem.sequences.longest(); ++t) {
    step(t);
    planned.refill(single_token(inputs, t, &of_step));
    of_step = planned.run();
    place_token(inputs, t, of_step, &outputs);
  }
  return outputs;
}

AccumulatedErrors accumulated_errors(const CheckedReference& reference, const Outputs& outputs) {
  const Case& inputs = reference.inputs();
  const Problem& p = inputs.problem;
  const std::vector<TokenWindow> windows = decades(p.sequences.longest());
  AccumulatedErrors errors;
  errors.by_window.assign(windows.size(), 0);
  errors.final_state = kNaN;
  const auto error_of = [&](const Operand& operand, const Strips& strips) {
    const std::vector<double>& expected = reference.wide()[operand.output_name()];
    const std::vector<float>& actual = outputs[operand.output_name()];
    Squares squares;
    strips.for_each([&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      squares.add(expected[at], actual[at]);
    });
    return squares.relative();
  };
  bool has_tokens = false, has_state = false;
  for (const Operand& operand : p.operation->operands) {
    if (!outputs.has(operand.output_name())) continue;
    const Cut cut = cut_of(operand, p);
    const bool tokens = cut == Cut::tokens && !has_tokens;
    const bool state =
        cut == Cut::pool_rows && is_written(operand, p) && !operand.judging.is_copy && !has_state;
    if (state) errors.final_state = 0;
    for (const BatchPart& part : units_of(operand, reference)) {
      if (state && writes_row(operand, inputs, part.sequence)) {
        errors.final_state =
            worse(errors.final_state, error_of(operand, written_strips_of(operand, inputs, part)));
      }
      for (std::size_t i = 0; tokens && i < windows.size(); ++i) {
        const std::int64_t end = std::min(windows[i].end, inputs.length(part.sequence));
        if (end <= windows[i].first) break;
        const double error = error_of(
            operand, strips_of(operand, inputs, part, {windows[i].first, end - windows[i].first}));
        errors.by_window[i] = worse(errors.by_window[i], error);
      }
    }
    has_tokens = has_tokens || tokens;
    has_state = has_state || state;
  }
  return errors;
}

}  // namespace gdn
