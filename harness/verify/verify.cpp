#include "harness/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/operations/operation_harness.h"
#include "harness/run/batches.h"
#include "harness/verify/invariances.h"
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
    const std::string difference = first_difference_of_sequence(
        inputs, whole, numbers[i], part, outputs, static_cast<std::int64_t>(i));
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
    if (length(n) == 0 || c.slot(n) < 0) continue;
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
    Support support = description_support(implementation_.description(), inputs_.problem);
    if (support) support = implementation_.supports(inputs_.problem);
    if (!support) {
      result_.verdict = Verdict::unsupported;
      result_.reason = support.reason;
      return std::move(result_);
    }
    const bool ran = check("errors", [&] {
      result_.outputs = execute(implementation_, inputs_, device_);
      result_.report = reference_.compare(result_.outputs);
      return reference_.violation(result_.report, result_.outputs, result_.report.limits);
    });
    if (ran) check_what_the_operation_asks();
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

  void check_what_the_operation_asks() {
    for (const OwnCheck& own : harness_of(inputs_.problem.operation).checks) {
      check(own.name.c_str(), [&] { return own.wrong(inputs_, result_.outputs); });
    }
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
        const std::string difference = first_difference(inputs_.problem, result_.outputs,
                                                        execute(implementation_, inputs_, device_));
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
          return first_difference_of_sequence(part, outputs, 0, part, outputs, 2);
        });
      }
    }
  }

  void check_continuation() {
    if (!carries_state(inputs_.problem)) {
      return not_applicable("continuation", "nothing is carried from call to call");
    }
    if (inputs_.problem.sequences.longest() < 2) {
      return not_applicable("continuation", "no sequence of two tokens");
    }
    if (!cuts_a_sequence(inputs_, in_halves)) {
      return not_applicable("continuation", "no sequence carries a token before its last");
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

template <>
const EnumNames<Verdict>& names_of() {
  static const EnumNames<Verdict> names = {{"passed", Verdict::passed},
                                           {"failed", Verdict::failed},
                                           {"unsupported", Verdict::unsupported},
                                           {"too large", Verdict::too_large},
                                           {"known limit", Verdict::known_limit}};
  return names;
}

template <>
const EnumNames<Check::Result>& names_of() {
  static const EnumNames<Check::Result> names = {{"passed", Check::Result::passed},
                                                 {"failed", Check::Result::failed},
                                                 {"not applicable", Check::Result::not_applicable}};
  return names;
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

VerifyResult verify_outputs(const CheckedReference& reference, Outputs outputs) {
  VerifyResult result;
  result.outputs = std::move(outputs);
  result.report = reference.compare(result.outputs);
  result.reason = reference.violation(result.report, result.outputs, result.report.limits);
  const bool good = result.reason.empty();
  result.checks.push_back(
      {"errors", good ? Check::Result::passed : Check::Result::failed, result.reason});
  result.verdict = good ? Verdict::passed : Verdict::failed;
  return result;
}

}  // namespace gdn
