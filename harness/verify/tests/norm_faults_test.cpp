// The wrong forms of gated_rms_norm are rejected by its quick suite, each by the check of errors;
// the same form without a fault passes it whole.
#include <gtest/gtest.h>

#include "harness/operations/generate_case.h"
#include "harness/operations/operation_harness.h"
#include "harness/tests/planted_faults/faulty_norm.h"
#include "harness/verify/verify.h"
#include "interface/operations/gated_rms_norm.h"

namespace gdn::testing {
namespace {

const std::vector<Case>& quick_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    for (const std::string& text : harness_of(gated_rms_norm_operation()).suite("quick")) {
      all.push_back(generate_case(Problem::parse(text)));
    }
    return all;
  }();
  return cases;
}

TEST(NormFaults, TheFormWithoutAFaultPasses) {
  const auto device = open_device("cpu");
  for (const Case& c : quick_cases()) {
    const VerifyResult result = verify(*make_faulty_norm(NormFault::none), c, *device);
    EXPECT_TRUE(result.passed()) << c.problem.to_string() << ": " << result.reason;
  }
}

class PlantedNormFault : public ::testing::TestWithParam<NormFault> {};

TEST_P(PlantedNormFault, IsRejected) {
  const auto device = open_device("cpu");
  VerifyOptions errors_only;
  errors_only.continuation = false;
  std::string rejected_by;
  bool by_errors = false;
  for (const Case& c : quick_cases()) {
    const VerifyResult result = verify(*make_faulty_norm(GetParam()), c, *device, errors_only);
    if (result.passed()) continue;
    rejected_by += "\n" + c.problem.to_string() + ": " + result.reason;
    const Check& first = result.checks.front();
    by_errors = by_errors || (first.name == "errors" && first.result == Check::Result::failed);
  }
  EXPECT_TRUE(by_errors) << "no problem of the suite quick shows it by its errors" << rejected_by;
}

INSTANTIATE_TEST_SUITE_P(All, PlantedNormFault, ::testing::ValuesIn(norm_faults()),
                         [](const auto& parameter) { return name_of(parameter.param); });

}  // namespace
}  // namespace gdn::testing
