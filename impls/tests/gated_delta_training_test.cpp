// Every implementation of gated_delta_training (contract section 1.14): against the float64 reference, and
// against its two calls by themselves.
#include "interface/operations/gated_delta_training.h"

#include <algorithm>
#include <string>
#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/run/device_case.h"
#include "harness/run/execute.h"
#include "interface/error.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_backward.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

class GatedDeltaTraining : public ImplementationTest {
 protected:
  static std::string problem(const std::string& rest) { return "gated_delta_training:" + rest; }
  /// Row `slot` of a pool, without the padding behind it.
  static std::vector<float> row_of(const std::vector<float>& pool, const Problem& p,
                                   std::int64_t slot) {
    const auto begin = pool.begin() + slot * p.state_row_stride();
    return {begin, begin + p.state_row_stride() - p.pool_row_padding};
  }

  /// The names of the implementations that the step is made of: as a rule its own. Empty: it has a forward call that is
  /// no implementation of gated_delta.
  struct Calls {
    std::string forward, backward;
  };
  Calls calls() const {
    const std::string& name = implementation().description().name;
    if (name == "cuda/chunkwise_sm90_recomputed") return {"cuda/fused_sm90", "cuda/chunkwise_sm90"};
    if (name.find("cuda/chunkwise_sm90") == 0) return {};
    return {name, name};
  }
  bool has_calls() const { return !calls().forward.empty(); }
  const Implementation& forward() const {
    return find_implementation(gated_delta_operation(), calls().forward);
  }
  const Implementation& backward() const {
    return find_implementation(gated_delta_backward_operation(), calls().backward);
  }

  /// Cases of the options, of heads that some of the implementations take, as far as they are supported.
  std::vector<Case> supported_cases(const std::vector<std::string>& options) const {
    std::vector<Case> cases;
    for (const std::string& rest : options) {
      for (const char* shape :
           {"dim=16x24,dtype=f32,", "dim=64,dtype=bf16,", "dim=128,dtype=bf16,"}) {
        const Problem of_shape = Problem::parse(problem("heads=1/2," + std::string(shape) + rest));
        if (!implementation().supports(of_shape)) continue;
        cases.push_back(generate_case(of_shape));
        break;
      }
    }
    return cases;
  }
};

const std::vector<std::string> kHowTheCallsMeet = {
    "seq=20+0+3,h0=normal,gates=mid",
    "seq=20+0+3,gates=mid,norm=1",
    "seq=20+0+3,h0=normal,ht=0,gates=mid",
    "seq=20+3,ht=0,gates=mid,gate=logits,beta=logit",
    "seq=9+0+3+2+0+5,h0=normal,slots=padding,pool_pad=8,layout=vk,state=bf16",
    "seq=9+0+3+2+0+5,slots=padding,pool_pad=8,pool_rows=11,state=f16",
};

constexpr const char* kOneOfItsOwn = "its forward call is no implementation of gated_delta";

TEST_P(GatedDeltaTraining, GivesTheBitsOfItsTwoCalls) {
  if (!has_calls()) GTEST_SKIP() << kOneOfItsOwn;
  const std::vector<Case> cases = supported_cases(kHowTheCallsMeet);
  ASSERT_FALSE(cases.empty());
  for (const Case& step : cases) {
    SCOPED_TRACE(step.problem.to_string());
    const Outputs outputs = execute(implementation(), step, device());
    const Outputs first = execute(forward(), forward_of(step), device());
    const Outputs second = execute(backward(), backward_of(step), device());
    EXPECT_TRUE(same_bits(outputs["output"], first["output"]));
    for (const auto& [name, gradient] : second) {
      EXPECT_TRUE(same_bits(outputs[name], gradient)) << name;
    }
    const Problem& p = step.problem;
    for (std::int64_t n = 0; p.final_state && n < p.num_sequences(); ++n) {
      if (step.slot(n) < 0 || step.length(n) == 0) continue;
      EXPECT_TRUE(same_bits(row_of(outputs["final_state"], p, step.slot(n)),
                            row_of(first["final_state"], p, step.slot(n))))
          << "sequence " << n;
    }
  }
}

TEST_P(GatedDeltaTraining, WithoutTokensTheFinalStateIsTheInitialOne) {
  for (const Case& step : supported_cases(kHowTheCallsMeet)) {
    const Problem& p = step.problem;
    if (!p.final_state) continue;
    SCOPED_TRACE(p.to_string());
    const Outputs outputs = execute(implementation(), step, device());
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      if (step.slot(n) < 0 || step.length(n) > 0) continue;
      std::vector<float> expected = row_of(step["initial_state"], p, step.slot(n));
      if (p.initial_state == InitialState::absent)
        std::fill(expected.begin(), expected.end(), 0.0f);
      EXPECT_TRUE(same_bits(row_of(outputs["final_state"], p, step.slot(n)), expected));
    }
  }
}

// The initial state is only read: a second run, nothing restored between the two, goes on from the same.
TEST_P(GatedDeltaTraining, ASecondRunBeginsWithTheSameState) {
  for (const Case& step : supported_cases(kHowTheCallsMeet)) {
    SCOPED_TRACE(step.problem.to_string());
    const DeviceCase on_device(step, device());
    const auto plan = implementation().plan(step.problem, on_device.arguments(), device());
    plan->run();
    const Outputs once = on_device.download();
    plan->run();
    for (const auto& [name, values] : on_device.download()) {
      EXPECT_TRUE(same_bits(values, once[name])) << name;
    }
  }
}

TEST_P(GatedDeltaTraining, ThereIsAPoolOfFinalStatesWhereTheyAreWanted) {
  for (const Case& step : supported_cases({"seq=9+3,h0=normal,ht=0", "seq=9+3,h0=normal"})) {
    const DeviceCase on_device(step, device());
    Arguments arguments = on_device.arguments();
    EXPECT_EQ(arguments.has("final_state"), step.problem.final_state);
    if (step.problem.final_state) {
      arguments.erase("final_state");
    } else {
      arguments.set_output("final_state", arguments.output("d_initial_state"));
    }
    try {
      implementation().plan(step.problem, arguments, device());
      ADD_FAILURE() << step.problem.to_string() << " was planned";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_NE(std::string(error.what()).find("final_state"), std::string::npos) << error.what();
    }
  }
}

// What a step is refused for, one of its calls is, and that is named.
TEST_P(GatedDeltaTraining, ARefusalNamesTheCallThatRefuses) {
  if (!has_calls()) GTEST_SKIP() << kOneOfItsOwn;
  for (const char* rest : {"dim=128,dtype=bf16,seq=9,ht=0", "dim=16,dtype=f32,seq=9,ht=0",
                           "dim=260,dtype=f32,seq=9,ht=0", "dim=128,dtype=bf16,seq=9,ht=0,chunk=48",
                           "dim=128,dtype=f16,seq=9,ht=0", "dim=64x72,dtype=bf16,seq=9,ht=0"}) {
    const Problem step = Problem::parse(problem(rest));
    const Support both = implementation().supports(step);
    const Support first = forward().supports(forward_of(step));
    const Support second = backward().supports(backward_of(step));
    EXPECT_EQ(both.ok, first.ok && second.ok) << rest;
    if (both) continue;
    EXPECT_EQ(both.reason,
              first.ok ? "gated_delta_backward: " + second.reason : "gated_delta: " + first.reason);
  }
}

TEST_P(GatedDeltaTraining, PlansAreThoseOfBothCalls) {
  if (!has_calls()) GTEST_SKIP() << kOneOfItsOwn;
  for (const Case& step : supported_cases({"seq=20+3,h0=normal,ht=0", "seq=20+3,h0=normal"})) {
    const auto planned = [&](const Implementation& of, const Case& call) {
      const DeviceCase on_device(call, device());
      return of.plan(call.problem, on_device.arguments(), device())->info();
    };
    const PlanInfo both = planned(implementation(), step);
    const PlanInfo first = planned(forward(), forward_of(step));
    const PlanInfo second = planned(backward(), backward_of(step));
    EXPECT_EQ(both.workspace_bytes, first.workspace_bytes + second.workspace_bytes);
    EXPECT_EQ(both.launches, first.launches + second.launches + (step.problem.final_state ? 1 : 0));
    EXPECT_NE(both.choice.find(first.choice), std::string::npos) << both.choice;
    EXPECT_NE(both.choice.find(second.choice), std::string::npos) << both.choice;
  }
}

TEST_P(GatedDeltaTraining, AgreesWithTheReference) {
  // The same bits as the calls', whose own tests run every option on emulators too.
  if (emulated() && has_calls()) GTEST_SKIP() << "GivesTheBitsOfItsTwoCalls says as much";
  for (const char* shape : {"dim=64x24,dtype=f32", "dim=128,dtype=bf16", "dim=64,dtype=f16"}) {
    for (const std::string& rest : kHowTheCallsMeet) {
      const Problem step = Problem::parse(problem("heads=1/2," + std::string(shape) + "," + rest));
      if (implementation().supports(step)) expect_agrees(step);
    }
  }
}

GDN_INSTANTIATE_FOR(GatedDeltaTraining, gated_delta_training_operation());

}  // namespace
}  // namespace gdn
