#include "harness/verify.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/invariances.h"
#include "harness/sequences.h"
#include "interface/error.h"

namespace gdn {
namespace {

// The sequences of `numbers` run as a batch of their own give what they gave in `whole`?
std::string differs_from_batch(const Implementation& implementation, const Case& inputs,
                               const Outputs& whole, const std::vector<std::int64_t>& numbers,
                               Device& device) {
  const Case part = take_sequences(inputs, numbers);
  const Outputs outputs = execute(implementation, part, device);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string difference =
        first_difference(sequence_outputs(inputs, whole, numbers[i]),
                         sequence_outputs(part, outputs, static_cast<std::int64_t>(i)));
    if (!difference.empty()) {
      return "sequence " + std::to_string(numbers[i]) + " of the batch: " + difference;
    }
  }
  return "";
}

// Non-empty sequences with a state, the shortest and the longest: nullopt if there is none.
struct ShortestAndLongest {
  std::int64_t shortest;
  std::int64_t longest;
};
std::optional<ShortestAndLongest> shortest_and_longest(const Case& c) {
  std::optional<ShortestAndLongest> found;
  const auto& lengths = c.problem.sequences.lengths;
  const auto length = [&](std::int64_t n) { return lengths[static_cast<std::size_t>(n)]; };
  for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
    const bool padding = !c.slot_index.empty() && c.slot_index[static_cast<std::size_t>(n)] < 0;
    if (length(n) == 0 || padding) continue;
    if (!found) found = {n, n};
    if (length(n) < length(found->shortest)) found->shortest = n;
    if (length(n) > length(found->longest)) found->longest = n;
  }
  return found;
}

class Verification {
 public:
  Verification(const Implementation& implementation, const CheckedReference& reference,
               Device& device, const VerifyOptions& options)
      : implementation_(implementation),
        reference_(reference),
        inputs_(reference.inputs()),
        device_(device),
        options_(options) {}

  VerifyResult run() {
    const Support support = implementation_.supports(inputs_.problem);
    if (!support || implementation_.description().operation != inputs_.problem.operation) {
      result_.verdict = Verdict::unsupported;
      result_.reason =
          support ? "does " + to_string(implementation_.description().operation) : support.reason;
      return std::move(result_);
    }
    const bool ran = check("errors", [&] {
      result_.outputs = execute(implementation_, inputs_, device_);
      result_.report = reference_.compare(result_.outputs);
      return reference::first_violation(result_.report, result_.report.limits);
    });
    if (ran) check_bits();
    if (ran && options_.continuation) check_continuation();
    if (ran) check_invariances();
    result_.verdict = result_.reason.empty() ? Verdict::passed : Verdict::failed;
    return std::move(result_);
  }

 private:
  // Runs `body`, which returns what is wrong; the first failure becomes the reason. True if it
  // passed.
  template <typename Body>
  bool check(const char* name, const Body& body) {
    std::string wrong;
    try {
      wrong = body();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::device_failure) throw;
      wrong = error.what();
    }
    result_.checks.push_back(
        {name, wrong.empty() ? Check::Result::passed : Check::Result::failed, wrong});
    if (!wrong.empty() && result_.reason.empty()) result_.reason = std::string(name) + ": " + wrong;
    return wrong.empty();
  }

  // Checks that hold several cases on the device at once.
  template <typename Body>
  void check_if_it_fits(const char* name, const Body& body) {
    try {
      check(name, body);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::out_of_memory) throw;
      not_applicable(name, error.what());
    }
  }

  void not_applicable(const char* name, const std::string& why) {
    result_.checks.push_back({name, Check::Result::not_applicable, why});
  }

  void check_bits() {
    const Description& description = implementation_.description();
    if (!description.bitwise_repeatable) {
      for (const char* name : {"repeat", "alone", "duplicates"}) {
        not_applicable(name, "declared not bitwise repeatable");
      }
      return;
    }
    if (options_.repeat) {
      check("repeat", [&] {
        const std::string difference =
            first_difference(result_.outputs, execute(implementation_, inputs_, device_));
        return difference.empty() ? "" : "a second run differs: " + difference;
      });
    }
    const auto ends = shortest_and_longest(inputs_);
    std::string why_not;
    if (!description.batch_invariant) why_not = "declared not batch invariant";
    if (!ends) why_not = "no sequence with tokens and a state";
    if (options_.alone) {
      if (!why_not.empty() || inputs_.problem.num_sequences() == 1) {
        not_applicable("alone", why_not.empty() ? "one sequence" : why_not);
      } else {
        check("alone", [&] {
          std::string wrong = differs_from_batch(implementation_, inputs_, result_.outputs,
                                                 {ends->shortest}, device_);
          if (wrong.empty() && ends->longest != ends->shortest) {
            wrong = differs_from_batch(implementation_, inputs_, result_.outputs, {ends->longest},
                                       device_);
          }
          return wrong;
        });
      }
    }
    if (options_.duplicates) {
      if (!why_not.empty()) {
        not_applicable("duplicates", why_not);
      } else {
        check("duplicates", [&] {
          const std::vector<std::int64_t> numbers = {ends->shortest, ends->longest, ends->shortest};
          const Case part = take_sequences(inputs_, numbers);
          const Outputs outputs = execute(implementation_, part, device_);
          return first_difference(sequence_outputs(part, outputs, 0),
                                  sequence_outputs(part, outputs, 2));
        });
      }
    }
  }

  void check_continuation() {
    if (inputs_.problem.sequences.longest() < 2) {
      return not_applicable("continuation", "no sequence of two tokens");
    }
    if (!implementation_.supports(first_part(inputs_, in_halves).problem)) {
      return not_applicable("continuation", "the halves are not supported");
    }
    if (!implementation_.supports(second_part(inputs_, in_halves, {}).problem)) {
      return not_applicable("continuation", "an initial state is not supported");
    }
    check("continuation",
          [&] { return continuation_wrong(implementation_, reference_, in_halves, device_); });
  }

  void check_invariances() {
    const VerifiedRun run{implementation_, reference_, result_.outputs, device_};
    for (const InvarianceCheck& invariance : invariance_checks()) {
      if (!(options_.*invariance.wanted)) continue;
      if (const NotApplicable why = invariance.not_applicable(run)) {
        not_applicable(invariance.name.c_str(), *why);
      } else {
        check_if_it_fits(invariance.name.c_str(), [&] { return invariance.wrong(run); });
      }
    }
  }

  const Implementation& implementation_;
  const CheckedReference& reference_;
  const Case& inputs_;
  Device& device_;
  const VerifyOptions& options_;
  VerifyResult result_;
};

}  // namespace

VerifyOptions VerifyOptions::all_invariances() {
  VerifyOptions options;
  options.permuted = options.refilled = options.replay = options.streams = options.isolation = true;
  return options;
}

bool VerifyOptions::runs_other_cases() const {
  return alone || duplicates || continuation || permuted || refilled || replay || streams ||
         isolation || every_split || token_by_token;
}

VerifyOptions VerifyOptions::of_suite_problem(const Problem& problem) const {
  constexpr double kMostBytesOfEveryCheck = 2.5e9;
  if (static_cast<double>(host_bytes_needed(problem)) <= kMostBytesOfEveryCheck) return *this;
  VerifyOptions options = *this;
  options.alone = options.duplicates = options.continuation = options.permuted = false;
  options.refilled = options.replay = options.streams = options.isolation = false;
  options.every_split = options.token_by_token = false;
  return options;
}

CheckedReference::CheckedReference(const Case& inputs, const VerifyOptions& options)
    : inputs_(&inputs), options_(options) {
  validate(inputs);
  const Problem& p = inputs.problem;
  const bool by_head = p.operation != Operation::causal_conv1d;
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

std::string CheckedReference::check(const Outputs& outputs) const {
  const reference::ErrorReport report = compare(outputs);
  return reference::first_violation(report, report.limits);
}

std::string CheckedReference::check_continued(const Outputs& outputs,
                                              std::int64_t roundings) const {
  const reference::ErrorReport report = compare(outputs);
  reference::ErrorLimits limits = report.limits;
  // An error of the state is an error of the outputs as large, relative to the state; outputs that
  // cancel see it larger: twice, and as much as a measured readout cancels. Independent roundings
  // add as squares.
  const double together =
      std::min(static_cast<double>(roundings), std::max(1.0, report.conditioning.memory_tokens));
  const double rounding = unit_roundoff(inputs_->problem.state_dtype) * std::sqrt(together);
  // Windows hold tokens: they round them only if their type is narrower.
  const bool narrower =
      unit_roundoff(inputs_->problem.state_dtype) > unit_roundoff(inputs_->problem.token_dtype);
  limits.output += 2 * rounding;
  limits.readout += rounding;
  limits.state += rounding;
  if (narrower) limits.conv_output += 2 * unit_roundoff(inputs_->problem.state_dtype);
  return reference::first_violation(report, limits);
}

std::string CheckedReference::coverage() const {
  const bool whole = evaluation_.pairs.empty();
  const std::string total = std::to_string(total_pairs_);
  if (whole) return "all " + total + " pairs";
  return "a random sample of " + std::to_string(evaluation_.pairs.size()) + " of " + total +
         " pairs (seed " + std::to_string(options_.sample_seed) + ")";
}

VerifyResult verify(const Implementation& implementation, const CheckedReference& reference,
                    Device& device, const VerifyOptions& options) {
  return Verification(implementation, reference, device, options).run();
}

VerifyResult verify(const Implementation& implementation, const Case& inputs, Device& device,
                    const VerifyOptions& options) {
  if (implementation.supports(inputs.problem)) {
    require_memory(inputs.problem, implementation.workspace_bytes(inputs.problem), device);
  }
  return verify(implementation, CheckedReference(inputs, options), device, options);
}

double verification_work(const Problem& problem, const VerifyOptions& options,
                         std::int64_t implementations) {
  constexpr double kOfEveryImplementation = 1e8;  // allocations, launches and small copies
  const double runs = options.runs_other_cases() ? 20 : 3;  // without the last two
  constexpr double kInputs = 5;  // making and judging them, beside the reference
  const auto bytes = static_cast<double>(host_bytes_needed(problem));
  const double shared = kInputs * bytes + std::min(reference::evaluation_flops(problem),
                                                   options.most_reference_flops);
  double each = kOfEveryImplementation + runs * bytes;
  if (options.every_split) each += 128 * bytes;
  if (options.token_by_token) {
    Problem step = problem;
    for (std::int64_t& length : step.sequences.lengths) length = std::min<std::int64_t>(length, 1);
    each += static_cast<double>(problem.sequences.longest()) *
            static_cast<double>(host_bytes_needed(step));
  }
  return shared + static_cast<double>(implementations) * each;
}

std::int64_t verification_memory(const Problem& problem, std::int64_t workspace_bytes,
                                 const VerifyOptions& options) {
  const auto bytes = static_cast<double>(host_bytes_needed(problem));
  // With their outputs: the case, its reference in float64, a second run's.
  double held = 3 * bytes;
  if (options.runs_other_cases()) {
    // Others and parts: seen to hold 6 times a batch of many tokens, 10 times one of many states.
    const bool has_states = problem.operation != Operation::causal_conv1d;
    const double states = has_states
                              ? 2 * sizeof(float) * static_cast<double>(problem.num_pool_rows()) *
                                    static_cast<double>(problem.state_row_stride())
                              : 0;
    held = 7 * bytes + 5 * states;
  }
  held += 2 * static_cast<double>(workspace_bytes);
  return static_cast<std::int64_t>(std::min(held, 9e18));
}

std::string exceeds_host_memory(const Problem& problem, const VerifyOptions& options,
                                const DeviceInfo& device, std::int64_t host_memory_bytes) {
  const auto on_device =
      static_cast<double>(has_memory_of_its_own(device) ? 0 : DeviceCase::bytes_needed(problem));
  const auto needed = [&](const VerifyOptions& checks) {
    return on_device + static_cast<double>(verification_memory(problem, 0, checks));
  };
  if (needed(options) <= static_cast<double>(host_memory_bytes)) return "";
  std::string why = problem.to_string() + ": to verify it takes " + in_gib(needed(options)) +
                    " of the host's memory, which has " +
                    in_gib(static_cast<double>(host_memory_bytes));
  VerifyOptions few;
  few.repeat = few.alone = few.duplicates = few.continuation = false;
  if (options.runs_other_cases()) why += " (errors alone take " + in_gib(needed(few)) + ")";
  return why;
}

VerifyResult verify_outputs(const CheckedReference& reference, Outputs outputs) {
  VerifyResult result;
  result.outputs = std::move(outputs);
  result.report = reference.compare(result.outputs);
  result.reason = reference::first_violation(result.report, result.report.limits);
  const bool good = result.reason.empty();
  result.checks.push_back(
      {"errors", good ? Check::Result::passed : Check::Result::failed, result.reason});
  result.verdict = good ? Verdict::passed : Verdict::failed;
  return result;
}

}  // namespace gdn
