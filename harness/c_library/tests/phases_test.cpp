// The phases of a call through the C library, as a server makes them: verify a draft, learn how much of
// it is accepted, commit that. Against the same implementation in C++, run whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "harness/c_library/gdnbench.h"
#include "harness/operations/generate_case.h"
#include "harness/run/batches.h"
#include "harness/run/execute.h"
#include "interface/operations/gated_delta_verify.h"

namespace gdn {
namespace {

const char* const kDrafts =
    "gated_delta_verify:heads=1/2,dim=16x24,seq=5+0+8+3,dtype=f32,gates=mid,h0=normal,"
    "slots=permuted,seed=5";

/// A case's arrays on the host, each under its name: what a caller from C holds.
struct CallersArrays {
  explicit CallersArrays(const Case& c) {
    for (const Operand& operand : c.problem.operation->operands) {
      if (!is_handed_over(operand, c.problem)) continue;
      gdnbench_array array{};
      array.operand = operand.name.c_str();
      if (operand.is_index()) {
        array.read = (indices[operand.name] = c.indices(operand)).data();
      } else if (operand.role == Role::output) {
        const auto count = static_cast<std::size_t>(element_count(operand, c.problem));
        values[operand.name].assign(count, std::numeric_limits<float>::quiet_NaN());
        array.written = values[operand.name].data();
      } else {
        array.read = (values[operand.name] = c[operand.name]).data();
        if (operand.role == Role::in_place) array.written = values[operand.name].data();
      }
      given.push_back(array);
    }
  }
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, std::vector<std::int64_t>> indices;
  std::vector<gdnbench_array> given;
};

class PhasesFromC : public ::testing::TestWithParam<const char*> {};

TEST_P(PhasesFromC, VerifyThenCommitAreTheCallInCppWhateverWasInAcceptedBefore) {
  ASSERT_STREQ(gdnbench_phase_name("gated_delta_verify", 0), "verify");
  ASSERT_STREQ(gdnbench_phase_name("gated_delta_verify", 1), "commit");
  const Case inputs = generate_case(Problem::parse(kDrafts));
  const std::string problem = inputs.problem.to_string();
  SCOPED_TRACE(problem);
  const Outputs whole = execute(find_implementation(gated_delta_verify_operation(), GetParam()),
                                inputs, *open_device("cpu"));

  CallersArrays arrays(inputs);
  std::vector<std::int64_t>& accepted = arrays.indices["accepted"];
  const std::vector<std::int64_t> right = accepted;
  gdnbench_plan* plan = nullptr;
  ASSERT_EQ(gdnbench_plan_create(GetParam(), problem.c_str(), nullptr, 0, "cpu", nullptr,
                                 arrays.given.data(),
                                 static_cast<std::int64_t>(arrays.given.size()), 0, &plan),
            GDNBENCH_OK)
      << gdnbench_last_error();
  // Of another draft: verify has no use for them.
  std::copy_n(std::vector<std::int64_t>{99, -7, 1 << 20, 0}.begin(), 4, accepted.begin());
  EXPECT_EQ(gdnbench_plan_run_phase(plan, 0), GDNBENCH_OK) << gdnbench_last_error();
  EXPECT_EQ(arrays.values["initial_state"], inputs["initial_state"]) << "verify writes no pool row";
  std::copy(right.begin(), right.end(), accepted.begin());
  EXPECT_EQ(gdnbench_plan_run_phase(plan, 1), GDNBENCH_OK) << gdnbench_last_error();
  gdnbench_plan_destroy(plan);
  Outputs apart;
  apart["output"] = arrays.values["output"];
  apart["final_state"] = arrays.values["initial_state"];
  EXPECT_EQ(first_difference(whole, apart), "");
}

INSTANTIATE_TEST_SUITE_P(Forms, PhasesFromC, ::testing::Values("cpu/records", "cpu/states"),
                         [](const auto& tested) { return std::string(tested.param).substr(4); });

}  // namespace
}  // namespace gdn
