// The phases of a call through the C library, as a server makes them: verify a draft, learn how much of
// it is accepted, commit that. Against the same implementation in C++, run whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/c_library/gdnbench.h"
#include "harness/operations/generate_case.h"
#include "harness/run/batches.h"
#include "harness/run/execute.h"
#include "harness/verify/suites.h"
#include "interface/operations/gated_delta_verify.h"

namespace gdn {
namespace {

const char* const kDrafts =
    "gated_delta_verify:heads=1/2,dim=64x24,seq=5+0+8+3,dtype=f32,gates=mid,h0=normal,"
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

bool is_cuda(const std::string& implementation) { return implementation.starts_with("cuda/"); }
const char* device_of(const std::string& implementation) {
  return is_cuda(implementation) ? "cuda-emulated" : "cpu";
}

class PhasesFromC : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const BackendStatus status = find_backend(device_of(GetParam())).status();
    if (!status.available) GTEST_SKIP() << status.detail;
    device_ = open_device(device_of(GetParam()));
  }
  /// The call in C++.
  Outputs whole(const Case& inputs) const {
    return execute(find_implementation(gated_delta_verify_operation(), GetParam()), inputs,
                   *device_);
  }

 private:
  std::unique_ptr<Device> device_;
};

gdnbench_plan* plan_of(const char* implementation, const Case& inputs,
                       const CallersArrays& arrays) {
  gdnbench_plan* plan = nullptr;
  EXPECT_EQ(gdnbench_plan_create(implementation, inputs.problem.to_string().c_str(), nullptr, 0,
                                 device_of(implementation), nullptr, arrays.given.data(),
                                 static_cast<std::int64_t>(arrays.given.size()), 0, &plan),
            GDNBENCH_OK)
      << gdnbench_last_error();
  return plan;
}

TEST_P(PhasesFromC, VerifyThenCommitAreTheCallInCppWhateverWasInAcceptedBefore) {
  ASSERT_STREQ(gdnbench_phase_name("gated_delta_verify", 0), "verify");
  ASSERT_STREQ(gdnbench_phase_name("gated_delta_verify", 1), "commit");
  const Case inputs = generate_case(Problem::parse(kDrafts));
  SCOPED_TRACE(inputs.problem.to_string());
  const Outputs at_once = whole(inputs);

  CallersArrays arrays(inputs);
  std::vector<std::int64_t>& accepted = arrays.indices["accepted"];
  const std::vector<std::int64_t> right = accepted;
  gdnbench_plan* const plan = plan_of(GetParam(), inputs, arrays);
  ASSERT_NE(plan, nullptr);
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
  EXPECT_EQ(first_difference(at_once, apart), "");
}

// Two layers, of which the second one's pool is converted around every phase that writes it.
TEST_P(PhasesFromC, PlansCommitTogetherHoweverTheirPoolsAreHeld) {
  const std::vector<Case> layers = {
      generate_case(Problem::parse(kDrafts)),
      generate_case(Problem::parse(std::string(kDrafts) + ",accepted=all"))};
  CallersArrays dense(layers[0]), apart(layers[1]);
  const std::vector<float>& state = layers[1]["initial_state"];
  std::vector<float> every_second(2 * state.size(), -1.0f);
  for (std::size_t i = 0; i < state.size(); ++i) every_second[2 * i] = state[i];
  const std::int64_t strides[] = {2 * 2 * 64 * 24, 2 * 64 * 24, 2 * 24, 2};
  for (gdnbench_array& array : apart.given) {
    if (std::string(array.operand) != "initial_state") continue;
    array.read = array.written = every_second.data();
    array.rank = 4;
    array.strides = strides;
  }
  gdnbench_plan* const plans[] = {plan_of(GetParam(), layers[0], dense),
                                  plan_of(GetParam(), layers[1], apart)};
  gdnbench_group* group = nullptr;
  ASSERT_EQ(gdnbench_group_create(plans, 2, 1, &group), GDNBENCH_OK) << gdnbench_last_error();
  gdnbench_group_details details{};
  EXPECT_EQ(gdnbench_group_info(group, &details), GDNBENCH_OK);
  EXPECT_EQ(details.launches, is_cuda(GetParam()) ? 3 : 0) << "one, and those that convert";
  for (gdnbench_plan* const plan : plans) EXPECT_EQ(gdnbench_plan_run_phase(plan, 0), GDNBENCH_OK);
  EXPECT_EQ(gdnbench_group_run(group), GDNBENCH_OK) << gdnbench_last_error();
  gdnbench_group_destroy(group);
  EXPECT_EQ(dense.values["initial_state"], whole(layers[0])["final_state"]);
  const Outputs second = whole(layers[1]);
  for (std::size_t i = 0; i < state.size(); ++i) {
    ASSERT_EQ(every_second[2 * i], second["final_state"][i]) << i;
    ASSERT_EQ(every_second[2 * i + 1], -1.0f) << i;
  }

  const auto refused = [&](std::vector<gdnbench_plan*> given, int phase, gdnbench_status status,
                           const std::string& words) {
    EXPECT_EQ(
        gdnbench_group_create(given.data(), static_cast<std::int64_t>(given.size()), phase, &group),
        status);
    EXPECT_EQ(group, nullptr);
    EXPECT_EQ(gdnbench_last_error(), words);
  };
  refused({}, 1, GDNBENCH_BAD_INPUT, "num_plans: 0, expected 1 or more");
  refused({plans[0], nullptr}, 1, GDNBENCH_BAD_INPUT, "plans: number 1: is null");
  refused({plans[0], plans[0]}, 1, GDNBENCH_BAD_INPUT,
          "group: plan 1 is plan 0, expected each once");
  refused({plans[1]}, 2, GDNBENCH_BAD_INPUT, "group: phase 2, expected 0..1");
  const std::string name = GetParam(), backend = name.substr(0, name.find('/') + 1);
  const std::string other = backend + (name == backend + "records" ? "states" : "records");
  gdnbench_plan* const of_other = plan_of(other.c_str(), layers[0], dense);
  refused({plans[0], of_other}, 1, GDNBENCH_UNSUPPORTED,
          "group: plan 1 is of " + other + ", expected " + GetParam() + " as plan 0");
  gdnbench_plan_destroy(of_other);
  for (gdnbench_plan* const plan : plans) gdnbench_plan_destroy(plan);
  gdnbench_group_destroy(nullptr);
}

INSTANTIATE_TEST_SUITE_P(Forms, PhasesFromC,
                         ::testing::Values("cpu/records", "cpu/states", "cuda/records",
                                           "cuda/states"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

// Lists are asked for by number, from zero to the first that is none; what is before them is none either.
TEST(Lists, BeginAtZeroAndEndWithNothing) {
  std::vector<std::string> suites, operations;
  for (int i = 0; gdnbench_suite_name(i) != nullptr; ++i) suites.push_back(gdnbench_suite_name(i));
  EXPECT_EQ(suites, suite_names());
  EXPECT_EQ(gdnbench_suite_name(-1), nullptr);
  for (int i = 0; gdnbench_operation_name(i) != nullptr; ++i) {
    operations.push_back(gdnbench_operation_name(i));
  }
  EXPECT_EQ(operations.size(), gdn::operations().size());
  EXPECT_EQ(gdnbench_operation_name(-1), nullptr);
  const auto problem_at = [](int index) {
    gdnbench_suite_problem problem{"not looked at", "", ""};
    EXPECT_EQ(gdnbench_suite_problem_of("quick", index, &problem), GDNBENCH_OK) << index;
    return std::string(problem.problem == nullptr ? "" : problem.problem);
  };
  EXPECT_EQ(problem_at(-1), "");
  EXPECT_NE(problem_at(0), "");
  int count = 0;
  while (!problem_at(count).empty()) ++count;
  EXPECT_EQ(static_cast<std::size_t>(count), find_suite("quick").problems.size());
}

}  // namespace
}  // namespace gdn
