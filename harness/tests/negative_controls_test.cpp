// Verification must be able to fail: each planted fault is rejected, and the same implementation
// without the fault is accepted on the same problem.
#include <gtest/gtest.h>

#include "harness/inputs.h"
#include "harness/tests/faulty_implementation.h"
#include "harness/verify.h"
#include "interface/device.h"

namespace gdn::testing {
namespace {

// At least three chunks, a tail, decays between 0.8 and 1, a non-symmetric initial state and
// grouped heads: what makes each fault visible.
const char* const kProblem =
    "gated_delta:heads=2/4,dim=24x24,seq=1x73+1x48,h0=normal,gates=mid,seed=7";

VerifyResult judge(Fault fault, const std::string& problem) {
  const auto device = open_device("cpu");
  return verify(*make_faulty(fault), generate_case(Problem::parse(problem)), *device);
}

class NegativeControl : public ::testing::TestWithParam<Fault> {};

TEST_P(NegativeControl, IsRejectedAndItsTwinAccepted) {
  const VerifyResult twin = judge(twin_of(GetParam()), kProblem);
  EXPECT_TRUE(twin.passed()) << kProblem << ": " << twin.reason;
  const VerifyResult faulty = judge(GetParam(), kProblem);
  EXPECT_EQ(faulty.verdict, Verdict::failed) << kProblem;
  EXPECT_FALSE(faulty.reason.empty());
}

INSTANTIATE_TEST_SUITE_P(Faults, NegativeControl, ::testing::ValuesIn(all_faults()),
                         [](const auto& parameter) { return name_of(parameter.param); });

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

}  // namespace
}  // namespace gdn::testing
