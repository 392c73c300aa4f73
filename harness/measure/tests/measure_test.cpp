// Measuring: nothing wrong is timed, state is put back, drift and stale outputs are caught after
// the timing, impossible times are errors. On the CPU device with implementations made for the
// purpose.
#include "harness/measure/measure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/operations/generate_case.h"
#include "interface/error.h"
#include "interface/forwarding_device.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

// Adds 1 to every state element and writes the new first element to every output: enough to see
// whether the state was put back and whether outputs were written.
struct Behaviour {
  std::int64_t wrong_from_run = std::numeric_limits<std::int64_t>::max();
  std::int64_t silent_from_run = std::numeric_limits<std::int64_t>::max();  // writes nothing more
  bool repeatable = true;
  std::int64_t runs = 0;
};

class AddOnePlan : public Plan {
 public:
  AddOnePlan(const Problem& problem, const GatedDeltaArguments& arguments, Behaviour& behaviour)
      : problem_(problem), arguments_(arguments), behaviour_(behaviour) {
    info_.launches = 1;
    info_.choice = "add one";
  }
  const PlanInfo& info() const override { return info_; }
  void run() override {
    const std::int64_t run = behaviour_.runs++;
    float* state = static_cast<float*>(arguments_.state_pool);
    float* output = static_cast<float*>(arguments_.output);
    if (run >= behaviour_.silent_from_run) return;
    const std::int64_t elements = problem_.num_value_heads * problem_.key_head_dim *
                                  problem_.value_head_dim * problem_.num_sequences();
    for (std::int64_t i = 0; i < elements; ++i) state[i] += 1;
    const float written = run >= behaviour_.wrong_from_run ? state[0] + 1 : state[0];
    const std::int64_t outputs =
        problem_.total_tokens() * problem_.num_value_heads * problem_.value_head_dim;
    for (std::int64_t i = 0; i < outputs; ++i) output[i] = written;
  }

 private:
  Problem problem_;
  GatedDeltaArguments arguments_;
  Behaviour& behaviour_;
  PlanInfo info_;
};

class AddOne : public Implementation {
 public:
  explicit AddOne(Behaviour& behaviour) : behaviour_(behaviour) {
    description_.name = "cpu/add_one";
    description_.backend = "cpu";
    description_.form = "naive";
    description_.honours = recurrence_options();
    description_.bitwise_repeatable = behaviour.repeatable;
  }
  const Description& description() const override { return description_; }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device&) const override {
    return std::make_unique<AddOnePlan>(problem, gated_delta_arguments(problem, arguments),
                                        behaviour_);
  }

 private:
  Description description_;
  Behaviour& behaviour_;
};

const char* kProblem = "gated_delta:heads=1/1,dim=8x8,seq=1x4,dtype=f32,h0=normal";

MeasureOptions brief(CacheMode mode = CacheMode::hot) {
  MeasureOptions options;
  options.mode = mode;
  options.stopping.min_samples = 5;
  options.stopping.max_samples = 20;
  options.stopping.min_time_s = 0;
  options.stopping.max_time_s = 60;  // a busy machine ends none
  return options;
}

// Right: every output is the case's first state element plus one.
OutputCheck add_one_check(const Case& inputs) {
  return [first = inputs["initial_state"][0]](const Outputs& outputs) -> std::string {
    for (const float value : outputs["output"]) {
      if (!(std::abs(value - (first + 1)) <= 1e-6f)) return "output is not state + 1";
    }
    return "";
  };
}

// The CPU as if it were so quick that no time is impossible: what a busy machine reaches while it
// measures its ceilings is no matter of these tests.
class BoundlessDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Ceilings ceilings() override { return {1e9, 1e9, 1e9}; }
};

class MeasureTest : public ::testing::Test {
 protected:
  Measurement run(const MeasureOptions& options = brief()) {
    return measure(AddOne(behaviour), inputs, *device, add_one_check(inputs), options);
  }
  Behaviour behaviour;
  Case inputs = generate_case(Problem::parse(kProblem));
  std::unique_ptr<Device> cpu = open_device("cpu");
  BoundlessDevice boundless{*cpu};
  Device* device = &boundless;
};

TEST_F(MeasureTest, RightOutputsAreVerifiedTimedAndVerifiedAgain) {
  const Measurement m = run();
  EXPECT_EQ(m.failure, "");
  EXPECT_TRUE(m.verified_before);
  EXPECT_TRUE(m.verified_after);
  EXPECT_GE(m.samples.size(), 5u);
  EXPECT_LE(m.samples.size(), 20u);
  EXPECT_EQ(m.time_ms.count, static_cast<std::int64_t>(m.samples.size()));
  EXPECT_NE(m.stop_reason, StopReason::none);
  EXPECT_EQ(m.work.tokens, 4);
  EXPECT_EQ(m.plan.choice, "add one");
  // One run before the samples, three to warm up, one after: every one on the state put back, or
  // the check would have failed.
  EXPECT_EQ(behaviour.runs, static_cast<std::int64_t>(m.samples.size()) + 5);
}

TEST_F(MeasureTest, ColdHasNoWarmUp) {
  const Measurement m = run(brief(CacheMode::cold));
  EXPECT_EQ(m.failure, "");
  EXPECT_EQ(behaviour.runs, static_cast<std::int64_t>(m.samples.size()) + 2);
}

// A card whose clock falls during every fourth sample, which then takes a thousand times as long.
class ThrottlingDevice final : public ForwardingDevice {
 public:
  ThrottlingDevice(Device& inner, double fraction) : ForwardingDevice(inner), fraction_(fraction) {}
  Ceilings ceilings() override { return {1e9, 1e9, 1e9}; }
  TimeSample time_launch(const std::function<void()>& prepare,
                         const std::function<void()>& launch) override {
    inner_.time_launch(prepare, launch);
    return samples_++ % 4 == 3 ? TimeSample{1000, fraction_ * 2000} : TimeSample{1, 2000};
  }

 private:
  double fraction_;
  int samples_ = 0;
};

TEST_F(MeasureTest, SamplesBelowNineTenthsOfTheHighestClockAreLeftOut) {
  for (const double fraction : {0.5, 0.89, 0.91}) {
    ThrottlingDevice throttling(*cpu, fraction);
    device = &throttling;
    MeasureOptions options = brief(CacheMode::cold);
    options.stopping.min_samples = options.stopping.max_samples = 12;
    const Measurement m = run(options);
    EXPECT_EQ(m.failure, "");
    const int left_out = fraction < 0.9 ? 3 : 0;
    EXPECT_EQ(m.throttle.throttled_count, left_out) << fraction;
    EXPECT_FALSE(m.throttle.mostly_throttled) << fraction;
    EXPECT_EQ(m.time_ms.count, 12 - left_out) << fraction;
    EXPECT_EQ(m.time_ms.maximum, left_out > 0 ? 1 : 1000) << fraction;
  }
}

TEST_F(MeasureTest, WrongOutputsAreNeverTimed) {
  behaviour.wrong_from_run = 0;
  const Measurement m = run();
  EXPECT_EQ(m.failure, "output is not state + 1");
  EXPECT_FALSE(m.verified_before);
  EXPECT_TRUE(m.samples.empty());
  EXPECT_EQ(behaviour.runs, 1);
}

TEST_F(MeasureTest, OutputsThatGoWrongWhileTimedAreCaught) {
  behaviour.wrong_from_run = 6;
  const Measurement m = run();
  EXPECT_TRUE(m.verified_before);
  EXPECT_FALSE(m.verified_after);
  EXPECT_EQ(m.failure, "after timing: output is not state + 1");
}

TEST_F(MeasureTest, StaleOutputsOfAKernelThatStoppedWorkingAreCaught) {
  behaviour.silent_from_run = 3;  // what it wrote before still lies in the buffers, and was right
  behaviour.repeatable = false;   // so that no comparison of bits comes to help
  const Measurement m = run();
  EXPECT_TRUE(m.verified_before);
  EXPECT_FALSE(m.verified_after);
  EXPECT_EQ(m.failure, "after timing: output is not state + 1");
}

TEST_F(MeasureTest, OtherBitsAfterTimingFailWhereRepeatableIsDeclared) {
  // Within the tolerance of the check, yet not the same bits.
  const OutputCheck lenient = [](const Outputs&) { return std::string(); };
  behaviour.wrong_from_run = 6;
  EXPECT_NE(
      measure(AddOne(behaviour), inputs, *device, lenient, brief()).failure.find("bit for bit"),
      std::string::npos);
  Behaviour varying;
  varying.wrong_from_run = 6;
  varying.repeatable = false;
  EXPECT_EQ(measure(AddOne(varying), inputs, *device, lenient, brief()).failure, "");
}

TEST_F(MeasureTest, RowOfAFailureHasSamplesButNoFigures) {
  behaviour.wrong_from_run = 6;
  Row row;
  describe_measurement(run(), row);
  EXPECT_EQ(row.status, row_status::kFailed);
  EXPECT_EQ(row.verified_before, 1);
  EXPECT_EQ(row.verified_after, 0);
  EXPECT_GT(row.sample_count, 0);
  EXPECT_TRUE(std::isnan(row.time_ms));
  EXPECT_TRUE(std::isnan(row.tokens_per_s));
}

TEST_F(MeasureTest, RowOfASuccessHasEveryFigure) {
  Row row;
  describe_measurement(run(), row);
  EXPECT_EQ(row.status, row_status::kOk);
  EXPECT_EQ(row.mode, "hot");
  for (const char* name : {"time_ms", "time_first_quartile_ms", "time_third_quartile_ms",
                           "time_min_ms", "time_max_ms", "planning_ms", "first_call_ms",
                           "tokens_per_s", "chunkwise_tflops", "bytes_moved", "tb_per_s"}) {
    EXPECT_NE(column_text(row, find_row_column(name)), "") << name;
  }
  EXPECT_LE(row.time_min_ms, row.time_ms);
  EXPECT_LE(row.time_ms, row.time_max_ms);
}

// The CPU device with times of our choosing.
class ClockedDevice final : public ForwardingDevice {
 public:
  ClockedDevice(Device& inner, double time_ms) : ForwardingDevice(inner), time_ms_(time_ms) {}
  TimeSample time_launch(const std::function<void()>& prepare,
                         const std::function<void()>& launch) override {
    inner_.time_launch(prepare, launch);
    return {time_ms_, 1500};
  }
  Ceilings ceilings() override { return {0.02, 0, 0.1}; }

 private:
  double time_ms_;
};

TEST_F(MeasureTest, TimesNoMachineReachesAreErrors) {
  // 7 * 64 * 4 = 1792 operations: 0.018 us at 0.1 TFLOP/s.
  ClockedDevice possible(*device, 1e-4);
  ClockedDevice impossible(*device, 1e-7);
  ClockedDevice zero(*device, 0);
  const auto with = [&](Device& timed) {
    return measure(AddOne(behaviour), inputs, timed, add_one_check(inputs), brief());
  };
  const Measurement m = with(possible);
  EXPECT_EQ(m.failure, "");
  EXPECT_DOUBLE_EQ(m.time_ms.median, 1e-4);
  EXPECT_NE(with(impossible).failure.find("TFLOP/s"), std::string::npos);
  EXPECT_NE(with(zero).failure, "");
}

}  // namespace
}  // namespace gdn
