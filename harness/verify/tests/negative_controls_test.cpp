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

}  // namespace
}  // namespace gdn::testing
