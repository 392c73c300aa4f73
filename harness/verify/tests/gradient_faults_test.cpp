// Planted faults of gradients beside the hazards' rows: which the suite quick sees, and what the checks of
// gated_delta_backward that need no reference find by themselves. Verification asks these only of gradients that are
// within their limits, and so the hazards' rows do not show it.
#include <gtest/gtest.h>

#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/operations/operation_harness.h"
#include "harness/run/execute.h"
#include "harness/tests/planted_faults/faulty_implementation.h"
#include "harness/verify/suites.h"
#include "harness/verify/verify.h"
#include "interface/device.h"
#include "interface/operations/gated_delta_backward.h"

namespace gdn::testing {
namespace {

// What the check says of the gradients that a form makes; empty: nothing.
std::string said(const std::string& check, Fault fault, const std::string& options) {
  const Case inputs = generate_case(
      Problem::parse("gated_delta_backward:heads=1/2,dim=16x8,seq=73,gates=weak," + options));
  const auto device = open_device("cpu");
  const Outputs outputs = execute(*make_faulty(fault), inputs, *device);
  for (const OwnCheck& own : harness_of(gated_delta_backward_operation()).checks) {
    if (own.name == check) return own.wrong(inputs, outputs);
  }
  return "there is no check '" + check + "'";
}

TEST(GradientFaults, ProjectionsLeftOutAreFoundByTheNorm) {
  const std::string options = "h0=normal,norm=1,keys=unnormalised";
  EXPECT_EQ(said("norm", Fault::none_gradients, options), "");
  EXPECT_EQ(said("norm", Fault::gradient_query_not_projected, options).rfind("d_q of row", 0), 0u);
  EXPECT_EQ(said("norm", Fault::gradient_key_not_projected, options).rfind("d_k of row", 0), 0u);
}

TEST(GradientFaults, TermsOfTheFirstTokensLogDecayAreFoundByTheStates) {
  EXPECT_EQ(said("first_gate", Fault::none_gradients, "h0=normal"), "");
  for (const Fault fault :
       {Fault::gradient_gate_without_states, Fault::gradient_gate_stale_states,
        Fault::gradient_gate_prefix_inclusive, Fault::gradient_state_after_chunk}) {
    EXPECT_NE(said("first_gate", fault, "h0=normal"), "") << name_of(fault);
  }
  // Sums over pairs of tokens do not reach the first one, and what goes wrong in D is wrong on both sides.
  for (const Fault fault : {Fault::gradient_gate_without_system, Fault::gradient_gamma_ignored}) {
    EXPECT_EQ(said("first_gate", fault, "h0=normal"), "") << name_of(fault);
  }
}

// Every stage of d_k, d_v and d_beta is on one side of the scalings of keys alone; what goes wrong before they part
// (D, the states) is on both.
TEST(GradientFaults, TermsOfKeysValuesAndBetasAreFoundByTheScalings) {
  for (const char* options : {"h0=normal", "h0=normal,dtype=bf16", "h0=normal,beta=logit"}) {
    EXPECT_EQ(said("scaling", Fault::none_gradients, options), "") << options;
    for (const Fault fault :
         {Fault::gradient_half_of_system, Fault::gradient_system_with_diagonal,
          Fault::gradient_scores_without_diagonal, Fault::gradient_value_without_beta,
          Fault::gradient_beta_not_divided, Fault::gradient_inverse_not_transposed,
          Fault::gradient_gamma_ignored, Fault::gradient_stale_d_state,
          Fault::gradient_state_after_chunk, Fault::gradient_last_head_of_group}) {
      const std::string found = said("scaling", fault, options);
      EXPECT_EQ(found.rfind("sequence 0, token ", 0), 0u)
          << name_of(fault) << ", " << options << ": '" << found << "'";
    }
  }
  EXPECT_NE(said("scaling", Fault::gradient_beta_logit_raw, "h0=normal,beta=logit"), "");
  EXPECT_NE(said("scaling", Fault::gradient_beta_by_quotient, "h0=normal,betas=mixture"), "")
      << "a NaN is off as well";
  for (const Fault fault :
       {Fault::gradient_final_state_ignored, Fault::gradient_d_state_not_decayed,
        Fault::gradient_gate_without_states}) {
    EXPECT_EQ(said("scaling", fault, "h0=normal"), "") << name_of(fault);
  }
}

// A problem on which verification with these checks rejects the faulty form; empty: none of them does.
std::string seen_by(Fault fault, const std::vector<CheckedReference>& references, Device& device,
                    const VerifyOptions& options) {
  const auto faulty = make_faulty(fault);
  for (const CheckedReference& reference : references) {
    const Problem& problem = reference.inputs().problem;
    if (!faulty->supports(problem).ok) continue;
    if (verify(*faulty, reference, device, options).verdict == Verdict::failed) {
      return problem.to_string();
    }
  }
  return "";
}

// The suite that runs where none is named must not be blind to a fault that is known. A fault that it does not
// see needs a problem of the suite, which is small beside those of the suites full and stress that see it.
TEST(GradientFaults, AreEachSeenByAProblemOfTheSuiteQuick) {
  const auto device = open_device("cpu");
  std::vector<Case> cases;
  for (const SuiteProblem& entry : find_suite("quick").problems) {
    if (entry.problem.operation != gated_delta_backward_operation()) continue;
    cases.push_back(generate_case(entry.problem));
  }
  std::vector<CheckedReference> references;
  for (const Case& inputs : cases) references.emplace_back(inputs);
  for (const Fault fault : all_faults()) {
    if (!is_gradients(fault)) continue;
    std::string seen = seen_by(fault, references, *device, VerifyOptions::errors_only());
    if (seen.empty()) seen = seen_by(fault, references, *device, VerifyOptions::all_invariances());
    EXPECT_NE(seen, "") << name_of(fault) << " passes every problem of the suite quick";
  }
}

}  // namespace
}  // namespace gdn::testing
