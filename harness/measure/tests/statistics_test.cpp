// Statistics on synthetic samples: order statistics by hand, the stopping rule, throttle tags.
#include "harness/measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "interface/error.h"

namespace gdn {
namespace {

TEST(Summary, QuartilesInterpolateBetweenOrderStatistics) {
  // Type 7 by hand: ranks 0.25 * 3, 0.5 * 3, 0.75 * 3 of 1, 2, 4, 8.
  const Summary s = summarize({8, 1, 4, 2});
  EXPECT_EQ(s.count, 4);
  EXPECT_DOUBLE_EQ(s.minimum, 1);
  EXPECT_DOUBLE_EQ(s.first_quartile, 1.75);
  EXPECT_DOUBLE_EQ(s.median, 3);
  EXPECT_DOUBLE_EQ(s.third_quartile, 5);
  EXPECT_DOUBLE_EQ(s.maximum, 8);
  EXPECT_DOUBLE_EQ(s.mean, 3.75);
  EXPECT_NEAR(s.standard_deviation, std::sqrt((7.5625 + 3.0625 + 0.0625 + 18.0625) / 3), 1e-12);
  EXPECT_DOUBLE_EQ(s.relative_spread, (5 - 1.75) / 3);
}

TEST(Summary, OneSampleHasNoSpread) {
  const Summary s = summarize({2.5});
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_DOUBLE_EQ(s.first_quartile, 2.5);
  EXPECT_DOUBLE_EQ(s.standard_deviation, 0);
  EXPECT_DOUBLE_EQ(s.relative_spread, 0);
}

TEST(Summary, OneOutlierMovesNeitherMedianNorSpread) {
  std::vector<double> samples(101, 1.0);
  samples[50] = 1000;
  const Summary s = summarize(samples);
  EXPECT_DOUBLE_EQ(s.median, 1);
  EXPECT_DOUBLE_EQ(s.relative_spread, 0);
  EXPECT_DOUBLE_EQ(s.maximum, 1000);
}

TEST(Summary, RefusesWhatHasNoStatistics) {
  EXPECT_THROW(summarize({}), Error);
  EXPECT_THROW(summarize({1, std::nan(""), 2}), Error);
  EXPECT_THROW(summarize({1, std::numeric_limits<double>::infinity()}), Error);
}

// Feeds samples until the rule stops; every sample costs ten times its own time of wall time.
struct RuleRun {
  StopReason reason = StopReason::none;
  int samples = 0;
  double noise = 0;
};
template <typename Next>
RuleRun run_rule(const StoppingLimits& limits, Next next, int most = 200000) {
  StoppingRule rule(limits);
  RuleRun run;
  double wall_s = 0;
  while (run.reason == StopReason::none && run.samples < most) {
    const double time_ms = next();
    wall_s += 10 * time_ms * 1e-3;
    run.reason = rule.add(time_ms, wall_s);
    ++run.samples;
  }
  run.noise = rule.noise();
  return run;
}

StoppingLimits patient() {
  StoppingLimits limits;
  limits.min_time_s = 0;
  limits.max_time_s = 1e9;
  return limits;
}

TEST(StoppingRule, QuietSamplesStopAtTheMinimumCount) {
  const RuleRun run = run_rule(patient(), [] { return 1.0; });
  EXPECT_EQ(run.reason, StopReason::noise_bound);
  EXPECT_EQ(run.samples, patient().min_samples);
  EXPECT_EQ(run.noise, 0);
}

TEST(StoppingRule, WaitsForTheMinimumTime) {
  StoppingLimits limits = patient();
  limits.min_time_s = 0.5;  // 500 samples of 1 ms
  const RuleRun run = run_rule(limits, [] { return 1.0; });
  EXPECT_EQ(run.reason, StopReason::noise_bound);
  EXPECT_GE(run.samples, 500);
  EXPECT_LE(run.samples, 500 + limits.stable_stride);
}

TEST(StoppingRule, SteadyNoiseAboveTheBoundStopsAsStable) {
  // Uniform noise of 20 %: the spread is near 0.1, far above the bound of 0.005, but it settles.
  std::mt19937 generator(1);
  std::uniform_real_distribution<double> uniform(0.9, 1.1);
  const RuleRun run = run_rule(patient(), [&] { return uniform(generator); });
  EXPECT_EQ(run.reason, StopReason::stable_noise);
  EXPECT_GT(run.samples, patient().stable_from);
  EXPECT_NEAR(run.noise, 0.1, 0.02);
}

TEST(StoppingRule, GrowingNoiseIsNeitherQuietNorStable) {
  // Times that double every 40 samples: every estimate is larger than the one before.
  StoppingLimits limits = patient();
  limits.max_samples = 1000;
  int i = 0;
  const RuleRun run = run_rule(limits, [&] { return std::exp2(++i / 40.0); });
  EXPECT_EQ(run.reason, StopReason::max_samples);
  EXPECT_EQ(run.samples, 1000);
}

TEST(StoppingRule, SlowSamplesStopOnWallTimeButNotBeforeThree) {
  StoppingLimits limits = patient();
  limits.max_time_s = 1;
  const RuleRun run = run_rule(limits, [] { return 10000.0; });
  EXPECT_EQ(run.reason, StopReason::max_time);
  EXPECT_EQ(run.samples, 3);
}

TEST(StoppingRule, RefusesImpossibleLimits) {
  StoppingLimits limits;
  limits.min_samples = 100;
  limits.max_samples = 10;
  EXPECT_THROW(StoppingRule{limits}, Error);
}

TEST(Throttle, SamplesWellBelowTheHighestClockAreLeftOut) {
  const std::vector<TimeSample> samples = {
      {1.0, 1980}, {1.0, 1975}, {2.0, 990}, {1.1, 1960}, {1.0, 1980}};
  const ThrottleTags tags = tag_throttled(samples);
  EXPECT_EQ(tags.throttled, (std::vector<bool>{false, false, true, false, false}));
  EXPECT_EQ(tags.throttled_count, 1);
  EXPECT_DOUBLE_EQ(tags.reference_clock_mhz, 1980);
  EXPECT_FALSE(tags.mostly_throttled);
  EXPECT_EQ(counted_times_ms(samples, tags), (std::vector<double>{1.0, 1.0, 1.1, 1.0}));
}

TEST(Throttle, NeverLeavesOutMostOfTheSamples) {
  const std::vector<TimeSample> samples = {{1.0, 1980}, {2.0, 990}, {2.0, 990}, {2.0, 990}};
  const ThrottleTags tags = tag_throttled(samples);
  EXPECT_EQ(tags.throttled_count, 3);
  EXPECT_TRUE(tags.mostly_throttled);
  EXPECT_EQ(counted_times_ms(samples, tags).size(), samples.size());
}

TEST(Throttle, UnknownClocksAreNotTagged) {
  const std::vector<TimeSample> samples = {{1.0, 0}, {1.0, 1980}, {1.0, 0}};
  EXPECT_EQ(tag_throttled(samples).throttled_count, 0);
  EXPECT_EQ(tag_throttled({{1.0, 0}, {2.0, 0}}).reference_clock_mhz, 0);
}

}  // namespace
}  // namespace gdn
