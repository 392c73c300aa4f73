// What planted faults must not show in: problems too easy for them. If these could show the fault,
// the hazards' problems (hazards_test.cpp) would prove less than they say.
#include <gtest/gtest.h>

#include "harness/operations/generate_case.h"
#include "harness/tests/planted_faults/faulty_implementation.h"
#include "harness/verify/verify.h"
#include "interface/device.h"

namespace gdn::testing {
namespace {

VerifyResult judge(Fault fault, const std::string& problem) {
  const auto device = open_device("cpu");
  return verify(*make_faulty(fault), generate_case(Problem::parse(problem)), *device);
}

// The wrong W circulates in public pseudo-code; it is exact for one chunk and without decay, so
// these problems cannot show it. If they could, the control above would prove less than it says.
TEST(NegativeControlLimits, WrongWIsInvisibleInOneChunkOrWithoutDecay) {
  const char* const one_chunk = "gated_delta:heads=2/4,dim=24x24,seq=1x16,gates=mid,seed=7";
  const char* const no_decay = "gated_delta:heads=2/4,dim=24x24,seq=1x73,gates=none,seed=7";
  VerifyOptions errors_only;
  errors_only.continuation = false;
  const auto device = open_device("cpu");
  for (const char* problem : {one_chunk, no_decay}) {
    const VerifyResult result = verify(
        *make_faulty(Fault::wrong_w), generate_case(Problem::parse(problem)), *device, errors_only);
    EXPECT_TRUE(result.passed()) << problem << ": " << result.reason;
  }
}

// Tiled and grouped head maps agree for Hk = Hv and for Hk = 1.
TEST(NegativeControlLimits, TiledHeadMapIsInvisibleWithOneKeyHead) {
  const char* const problem = "gated_delta:heads=1/4,dim=24x24,seq=1x73,gates=mid,seed=7";
  EXPECT_TRUE(judge(Fault::tiled_head_map, problem).passed());
}

// Gradients: what each of these problems lacks is what the hazard's own problem has.
TEST(NegativeControlLimits, WrongGradientsAreInvisibleInProblemsTooEasyForThem) {
  struct TooEasy {
    Fault fault;
    const char* problem;
  };
  const TooEasy kProblems[] = {
      // one chunk, or no states
      {Fault::gradient_d_state_not_decayed, "heads=1/2,dim=16x8,seq=16,gates=weak,h0=normal,ht=0"},
      {Fault::gradient_gate_without_states, "heads=1/2,dim=16x8,seq=16,gates=weak"},
      {Fault::gradient_stale_d_state, "heads=1/2,dim=16x8,seq=16,gates=weak,h0=normal"},
      {Fault::gradient_final_state_ignored, "heads=1/2,dim=16x8,seq=73,gates=weak,h0=normal,ht=0"},
      {Fault::gradient_tail_row_twice, "heads=1/2,dim=16x8,seq=64,gates=weak,h0=normal"},
      // no decay, or one whose gradient is not small
      {Fault::gradient_rho_ignored, "heads=1/2,dim=16x8,seq=73,gates=none,h0=normal"},
      {Fault::gradient_gamma_ignored, "heads=1/2,dim=16x8,seq=73,gates=none,h0=normal"},
      {Fault::gradient_gate_transposed_in_bfloat16,
       "heads=1/2,dim=16x8,seq=73,gates=none,h0=normal,dtype=bf16"},
      {Fault::gradient_gate_by_identity,
       "heads=1/2,dim=16x8,seq=73,gates=none,h0=normal,dtype=bf16"},
      {Fault::gradient_factored_decay, "heads=1/2,dim=16x8,seq=73,gates=weak,h0=normal,dtype=bf16"},
      // betas of 1
      {Fault::gradient_value_without_beta,
       "heads=1/2,dim=16x8,seq=73,gates=weak,h0=normal,betas=one"},
      {Fault::gradient_beta_not_divided,
       "heads=1/2,dim=16x8,seq=73,gates=weak,h0=normal,betas=one"},
      // a value head for every key head, and few columns
      {Fault::gradient_last_head_of_group, "heads=2/2,dim=16x8,seq=73,gates=weak,h0=normal"},
      {Fault::gradient_first_64_columns, "heads=1/2,dim=8x64,seq=73,gates=weak,h0=normal"},
  };
  VerifyOptions errors_only;
  errors_only.continuation = false;
  const auto device = open_device("cpu");
  for (const TooEasy& easy : kProblems) {
    const std::string problem = std::string("gated_delta_backward:") + easy.problem;
    const VerifyResult result = verify(
        *make_faulty(easy.fault), generate_case(Problem::parse(problem)), *device, errors_only);
    EXPECT_TRUE(result.passed()) << name_of(easy.fault) << ", " << problem << ": " << result.reason;
  }
}

}  // namespace
}  // namespace gdn::testing
