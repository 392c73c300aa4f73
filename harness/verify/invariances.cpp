#include "harness/verify/invariances.h"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <exception>
#include <functional>
#include <thread>

#include "harness/run/batches.h"
#include "interface/error.h"

namespace gdn {
namespace {

const Case& inputs_of(const VerifiedRun& run) { return run.reference.inputs(); }

NotApplicable unless_repeatable(const VerifiedRun& run) {
  if (run.implementation.description().bitwise_repeatable) return std::nullopt;
  return "declared not bitwise repeatable";
}

// The sequences of `a` and `b` chosen by `compared` give the same bits in both.
template <typename Compared>
std::string sequences_differ(const Case& a, const Outputs& of_a, const Case& b, const Outputs& of_b,
                             const Compared& compared) {
  for (std::int64_t n = 0; n < a.problem.num_sequences(); ++n) {
    if (!compared(n)) continue;
    const std::string difference = first_difference_of_sequence(a, of_a, n, b, of_b, n);
    if (!difference.empty()) return "sequence " + std::to_string(n) + ": " + difference;
  }
  return "";
}

// ---- permuted

NotApplicable permuted_not_applicable(const VerifiedRun& run) {
  if (!carries_state(inputs_of(run).problem)) return "there are no pools";
  if (const auto why = unless_repeatable(run)) return why;
  const Support support = run.implementation.supports(with_other_slots(inputs_of(run)).problem);
  if (!support) return "permuted slots are not supported: " + support.reason;
  return std::nullopt;
}

std::string permuted_wrong(const VerifiedRun& run) {
  const Case other = with_other_slots(inputs_of(run));
  return sequences_differ(inputs_of(run), run.outputs, other,
                          execute(run.implementation, other, run.device),
                          [](std::int64_t) { return true; });
}

// ---- refilled and replay

NotApplicable refilled_not_applicable(const VerifiedRun& run) {
  if (inputs_of(run).problem.total_tokens() == 0) return "no tokens";
  return std::nullopt;
}

// The numbers of another case in a plan's buffers: right, or why not. It is the plan's second run at the
// least, so that what a run leaves behind for the next one is seen.
std::string wrong_when_refilled(const VerifiedRun& run, PlannedCase& planned) {
  const CaseWithOutputs& other = run.other_lengths();
  const bool repeatable = run.implementation.description().bitwise_repeatable;
  const std::string before = first_difference(inputs_of(run).problem, run.outputs, planned.run());
  if (repeatable && !before.empty()) return "before the refill: " + before;
  planned.refill(other.inputs);
  const Outputs refilled = planned.run();
  // A plan made for other lengths may choose otherwise, and round otherwise.
  if (first_difference(other.outputs, refilled).empty()) return "";
  return CheckedReference(other.inputs, run.reference.options()).check(refilled);
}

std::string refilled_wrong(const VerifiedRun& run) {
  PlannedCase planned(run.implementation, inputs_of(run), run.device);
  return wrong_when_refilled(run, planned);
}

NotApplicable replay_not_applicable(const VerifiedRun& run) {
  if (run.device.capture([] {}) == nullptr) return "the device has no graphs";
  return refilled_not_applicable(run);
}

std::string replay_wrong(const VerifiedRun& run) {
  PlannedCase planned(run.implementation, inputs_of(run), run.device);
  planned.run();  // what a plan loads at its first run is not part of the graph
  if (!planned.capture()) return "the plan could not be captured in a graph";
  return wrong_when_refilled(run, planned);
}

// ---- streams

NotApplicable streams_not_applicable(const VerifiedRun& run) {
  if (const auto why = unless_repeatable(run)) return why;
  return refilled_not_applicable(run);
}

// Runs `planned` a few times, each time together with the other stream, and compares with
// `expected`.
std::string repeated_differs(const Problem& problem, PlannedCase& planned, const Outputs& expected,
                             std::barrier<>& together) {
  constexpr int kRuns = 3;
  for (int i = 0; i < kRuns; ++i) {
    together.arrive_and_wait();
    // Inputs stay as they are uploaded: what any of the runs wrote there is seen after the last.
    const auto inputs = i + 1 < kRuns ? CheckInputs::later : CheckInputs::now;
    const std::string difference = first_difference(problem, expected, planned.run(inputs));
    if (!difference.empty()) return "run " + std::to_string(i) + ": " + difference;
  }
  return "";
}

std::string streams_wrong(const VerifiedRun& run) {
  const CaseWithOutputs& other = run.other_lengths();
  const DeviceInfo& info = run.device.info();
  const auto second_device = open_device(info.backend + ":" + std::to_string(info.index));
  PlannedCase first(run.implementation, inputs_of(run), run.device);
  PlannedCase second(run.implementation, other.inputs, *second_device);

  std::string wrong[2];
  std::exception_ptr failures[2];
  std::barrier<> together(2);
  const auto stream = [&](int i, const Problem& problem, PlannedCase& planned,
                          const Outputs& right) {
    try {
      wrong[i] = repeated_differs(problem, planned, right, together);
    } catch (...) {
      failures[i] = std::current_exception();
    }
    together.arrive_and_drop();  // the other may go on alone
  };
  std::thread beside(stream, 1, std::cref(other.inputs.problem), std::ref(second),
                     std::cref(other.outputs));
  stream(0, inputs_of(run).problem, first, run.outputs);
  beside.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  if (!wrong[0].empty()) return "the first stream, " + wrong[0];
  if (!wrong[1].empty()) return "the second stream, " + wrong[1];
  return "";
}

// ---- isolation

NotApplicable isolation_not_applicable(const VerifiedRun& run) {
  if (inputs_of(run).problem.num_sequences() < 2) return "one sequence";
  return unless_repeatable(run);
}

std::string isolation_wrong(const VerifiedRun& run) {
  PlannedCase planned(run.implementation, inputs_of(run), run.device);
  planned.refill(with_poisoned_odd_sequences(inputs_of(run)));
  return sequences_differ(inputs_of(run), run.outputs, inputs_of(run), planned.run(),
                          [](std::int64_t n) { return n % 2 == 0; });
}

// ---- strided

NotApplicable strided_not_applicable(const VerifiedRun& run) {
  if (const auto why = unless_repeatable(run)) return why;
  const Problem& p = inputs_of(run).problem;
  const auto& operands = p.operation->operands;
  const bool any = std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    return is_handed_over(operand, p) && takes_token_stride(operand, p);
  });
  if (!any || p.total_tokens() < 2) return "no operand takes a token stride";
  return std::nullopt;
}

std::string strided_wrong(const VerifiedRun& run) {
  PlannedCase planned(run.implementation, inputs_of(run), run.device, {.slices = true});
  return first_difference(inputs_of(run).problem, run.outputs, planned.run());
}

// ---- on_request

NotApplicable on_request_not_applicable(const VerifiedRun& run) {
  const Problem& p = inputs_of(run).problem;
  const auto& operands = p.operation->operands;
  const bool any = std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) {
    return operand.hand_over.on_request && is_present(operand, p);
  });
  if (!any) return "nothing is written on request";
  return std::nullopt;
}

std::string on_request_wrong(const VerifiedRun& run) {
  PlannedCase planned(run.implementation, inputs_of(run), run.device, {.on_request = true});
  return run.reference.check(planned.run());
}

// ---- phases

NotApplicable phases_not_applicable(const VerifiedRun& run) {
  if (inputs_of(run).problem.operation->phases.empty()) return "the operation has no phases";
  return unless_repeatable(run);
}

std::string phases_wrong(const VerifiedRun& run) {
  PlannedCase planned(run.implementation, inputs_of(run), run.device);
  const auto wrong = [&](HiddenIndices indices) {
    return first_difference(inputs_of(run).problem, run.outputs,
                            planned.run_in_phases(inputs_of(run), indices));
  };
  // A kernel that looks at a count early may only get less done by one that is too small, or more by
  // one that is too large.
  std::string difference = wrong(HiddenIndices::below);
  if (!difference.empty()) return difference;
  difference = wrong(HiddenIndices::above);
  if (!difference.empty()) return "a second time: " + difference;
  planned.refill(inputs_of(run));  // nothing is hidden
  PlannedCase other(run.implementation, inputs_of(run), run.device);
  for (const Outputs& outputs : PlannedTogether(run.implementation, {&planned, &other}).run()) {
    difference = first_difference(inputs_of(run).problem, run.outputs, outputs);
    if (!difference.empty()) return "of two plans together: " + difference;
  }
  return "";
}

// ---- every_split and token_by_token

NotApplicable split_not_applicable(const VerifiedRun& run) {
  const Case& inputs = inputs_of(run);
  if (!carries_state(inputs.problem)) return "nothing is carried from call to call";
  if (inputs.problem.sequences.longest() < 2) return "no sequence of two tokens";
  if (!cuts_a_sequence(inputs, after(1))) return "no sequence carries a token before its last";
  if (!run.implementation.supports(first_part(inputs, after(1)).problem)) {
    return "the parts are not supported";
  }
  if (!run.implementation.supports(second_part(inputs, after(1), {}).problem)) {
    return "an initial state is not supported";
  }
  return std::nullopt;
}

std::string every_split_wrong(const VerifiedRun& run) {
  const Case& inputs = inputs_of(run);
  const std::int64_t last = std::min<std::int64_t>(64, inputs.problem.sequences.longest() - 1);
  for (std::int64_t tokens = 1; tokens <= last; ++tokens) {
    const std::string wrong =
        continuation_wrong(run.implementation, run.reference, after(tokens), run.device);
    if (!wrong.empty()) return "after " + std::to_string(tokens) + " tokens: " + wrong;
  }
  return "";
}

NotApplicable token_by_token_not_applicable(const VerifiedRun& run) {
  if (const auto why = split_not_applicable(run)) return why;
  if (is_carried_token_by_token(inputs_of(run).problem)) return std::nullopt;
  return "the operation is not called token by token";
}

std::string token_by_token_wrong(const VerifiedRun& run) {
  const Case& inputs = inputs_of(run);
  Outputs joined = run.outputs;
  const Case first = single_token(inputs, 0, nullptr);
  PlannedCase planned(run.implementation, first, run.device);
  Outputs step = planned.run();
  place_token(inputs, 0, step, &joined);
  for (std::int64_t t = 1; t < inputs.problem.sequences.longest(); ++t) {
    planned.refill(single_token(inputs, t, &step));
    step = planned.run();
    place_token(inputs, t, step, &joined);
  }
  return run.reference.check_continued(joined, inputs.problem.sequences.longest() - 1);
}

}  // namespace

const CaseWithOutputs& VerifiedRun::other_lengths() const {
  if (!made_other_lengths) {
    Case other = with_other_lengths(reference.inputs());
    Outputs of_other = execute(implementation, other, device);
    made_other_lengths.emplace(std::move(other), std::move(of_other));
  }
  return *made_other_lengths;
}

std::string continuation_wrong(const Implementation& implementation,
                               const CheckedReference& reference, const CutAt& cut,
                               Device& device) {
  const Case& inputs = reference.inputs();
  const Outputs before = execute(implementation, first_part(inputs, cut), device);
  const Case second = second_part(inputs, cut, before);
  try {
    validate(second);
  } catch (const Error& error) {
    return std::string("the state after the first call: ") + error.what();
  }
  const Outputs after = execute(implementation, second, device);
  return reference.check_continued(joined(inputs, cut, before, after), 1);
}

const std::vector<InvarianceCheck>& invariance_checks() {
  static const std::vector<InvarianceCheck> checks = {
      {"permuted", &VerifyOptions::permuted, permuted_not_applicable, permuted_wrong},
      {"refilled", &VerifyOptions::refilled, refilled_not_applicable, refilled_wrong},
      {"replay", &VerifyOptions::replay, replay_not_applicable, replay_wrong},
      {"streams", &VerifyOptions::streams, streams_not_applicable, streams_wrong},
      {"isolation", &VerifyOptions::isolation, isolation_not_applicable, isolation_wrong},
      {"strided", &VerifyOptions::strided, strided_not_applicable, strided_wrong},
      {"on_request", &VerifyOptions::on_request, on_request_not_applicable, on_request_wrong},
      {"phases", &VerifyOptions::phases, phases_not_applicable, phases_wrong},
      {"every_split", &VerifyOptions::every_split, split_not_applicable, every_split_wrong},
      {"token_by_token", &VerifyOptions::token_by_token, token_by_token_not_applicable,
       token_by_token_wrong},
  };
  return checks;
}

}  // namespace gdn
