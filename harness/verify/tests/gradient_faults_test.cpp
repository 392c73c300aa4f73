// What the checks of gated_delta_backward that need no reference find by themselves: verification asks them only
// of gradients that are within their limits, and so the hazards' rows do not show it.
#include <gtest/gtest.h>

#include "harness/operations/generate_case.h"
#include "harness/operations/operation_harness.h"
#include "harness/run/execute.h"
#include "harness/tests/planted_faults/faulty_implementation.h"
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

}  // namespace
}  // namespace gdn::testing
