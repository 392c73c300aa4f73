// Verdicts on synthetic samples whose truth is known: one distribution compares as same, a planted
// slowdown is found, and what the samples cannot settle is said to be ambiguous.
#include "harness/measure/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "interface/error.h"

namespace gdn {
namespace {

constexpr unsigned kSeed = 20240611;

Row timed_row(const std::string& problem) {
  Row row;
  row.problem = problem;
  row.operation = "gated_delta";
  row.implementation = "cuda/fused";
  row.mode = "cold";
  row.backend = "cuda";
  row.device = "a device";
  row.status = row_status::kOk;
  row.date = "2026-01-01T00:00:00Z";
  row.fields["token_dtype"] = row.fields["output_dtype"] = "bf16";
  row.fields["state_dtype"] = "f32";
  row.errors = {{"output", ErrorMetric::relative_l2, RowError::kWhole, 2e-3},
                {"final_state", ErrorMetric::relative_l2, RowError::kWhole, 1e-6}};
  return row;
}

// The row with another relative L2 error of one of its outputs.
Row with_error(Row row, const std::string& output, double relative_l2) {
  for (RowError& error : row.errors) {
    if (error.output == output) error.value = relative_l2;
  }
  return row;
}

// Log-normal times about `median_ms` with a tail of slow outliers: the form timing samples have.
std::vector<TimeSample> draw(std::mt19937_64& generator, double median_ms, double spread, int count,
                             double clock_mhz = 0) {
  std::lognormal_distribution<double> body(0, spread);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<TimeSample> samples;
  for (int i = 0; i < count; ++i) {
    const double outlier = unit(generator) < 0.02 ? 1.5 : 1.0;
    samples.push_back({median_ms * body(generator) * outlier, clock_mhz});
  }
  return samples;
}

StoredRows one_row(const std::vector<TimeSample>& samples, Row row = timed_row("p")) {
  StoredRows stored;
  stored.add(std::move(row), samples);
  return stored;
}

RowComparison compare_one(const StoredRows& a, const StoredRows& b,
                          const CompareOptions& options = {}) {
  const CompareResult result = compare({a}, {b}, options);
  EXPECT_EQ(result.rows.size(), 1u);
  return result.rows.at(0);
}

struct Sampling {
  double spread;  // of the logarithm; the interquartile range is 1.35 times it
  int count;
};
// What the stopping rule leaves: few quiet samples, or many noisy ones.
const std::vector<Sampling> kCases = {{0.002, 10}, {0.004, 32}, {0.01, 100}, {0.02, 400}};

int count_verdicts(SpeedVerdict wanted, double slowdown, int repeats) {
  std::mt19937_64 generator(kSeed);
  StoredRows a;
  StoredRows b;
  for (const Sampling& c : kCases) {
    for (int i = 0; i < repeats; ++i) {
      const double median_ms = 0.01 * (1 + i);
      Row row = timed_row("p" + std::to_string(c.count) + "-" + std::to_string(i));
      a.add(row, draw(generator, median_ms, c.spread, c.count));
      b.add(row, draw(generator, median_ms * slowdown, c.spread, c.count));
    }
  }
  return static_cast<int>(compare({a}, {b}).count(wanted));
}

TEST(Compare, RepeatedDrawsOfOneDistributionAreTheSameInAtLeast95Percent) {
  const int total = 4 * 250;
  EXPECT_GE(count_verdicts(SpeedVerdict::same, 1.0, 250), total * 95 / 100) << "seed " << kSeed;
  EXPECT_EQ(count_verdicts(SpeedVerdict::slower, 1.0, 250), 0) << "seed " << kSeed;
  EXPECT_EQ(count_verdicts(SpeedVerdict::faster, 1.0, 250), 0) << "seed " << kSeed;
}

TEST(Compare, APlantedSlowdownOfThreePercentIsFound) {
  const int total = 4 * 250;
  EXPECT_GE(count_verdicts(SpeedVerdict::slower, 1.03, 250), total * 95 / 100) << "seed " << kSeed;
  EXPECT_EQ(count_verdicts(SpeedVerdict::same, 1.03, 250), 0) << "seed " << kSeed;
  EXPECT_GE(count_verdicts(SpeedVerdict::faster, 1 / 1.03, 250), total * 95 / 100)
      << "seed " << kSeed;
}

TEST(Compare, ScatteredSamplesAreAmbiguousNotTheSame) {
  std::mt19937_64 generator(kSeed);
  const RowComparison row =
      compare_one(one_row(draw(generator, 1, 0.2, 12)), one_row(draw(generator, 1, 0.2, 12)));
  EXPECT_EQ(row.verdict, SpeedVerdict::ambiguous) << row.reason;
  EXPECT_NE(row.reason.find("more samples"), std::string::npos) << row.reason;
}

TEST(Compare, FewSamplesThatScatterOverAllSizesAreAmbiguous) {
  const StoredRows a = one_row({{0.1, 0}, {9, 0}, {0.2, 0}});
  const RowComparison row = compare_one(a, a);
  EXPECT_EQ(row.verdict, SpeedVerdict::ambiguous);
  EXPECT_NE(row.reason.find("too scattered"), std::string::npos) << row.reason;
  const StoredRows zero = one_row({{0, 0}, {0, 0}, {0, 0}});
  EXPECT_NE(compare_one(zero, zero).reason.find("too coarse"), std::string::npos);
}

TEST(MedianInterval, HoldsTheMedianAsOftenAsItSays) {
  std::mt19937_64 generator(kSeed);
  std::normal_distribution<double> normal(10, 1);
  for (const int count : {2, 3, 5, 8, 9, 20, 101, 600}) {
    int held = 0;
    constexpr int kRepeats = 2000;
    for (int i = 0; i < kRepeats; ++i) {
      std::vector<double> samples;
      for (int j = 0; j < count; ++j) samples.push_back(normal(generator));
      const MedianInterval interval = median_interval(samples);
      held += interval.low <= 10 && 10 <= interval.high ? 1 : 0;
    }
    // 95 % +- 4 standard errors; order statistics come in steps and may hold more often.
    EXPECT_GE(held, 0.93 * kRepeats) << count << " samples, seed " << kSeed;
    if (count < 9) {
      EXPECT_LE(held, 0.97 * kRepeats) << count << " samples, seed " << kSeed;
    }
  }
}

TEST(MedianInterval, KnownRanks) {
  std::vector<double> samples;
  for (int i = 1; i <= 100; ++i) samples.push_back(i);
  // Tables of the 95 % interval of the median: ranks 40 and 61 of 100, 6 and 15 of 20, 2 and 9 of
  // 10.
  EXPECT_EQ(median_interval(samples).low, 40);
  EXPECT_EQ(median_interval(samples).high, 61);
  samples.resize(20);
  EXPECT_EQ(median_interval(samples).low, 6);
  EXPECT_EQ(median_interval(samples).high, 15);
  samples.resize(10);
  EXPECT_EQ(median_interval(samples).low, 2);
  EXPECT_EQ(median_interval(samples).high, 9);
  samples.resize(3);  // mean 2, standard deviation 1, t = 4.303
  EXPECT_NEAR(median_interval(samples).high, 2 + 4.303 / std::sqrt(3.0), 1e-9);
}

TEST(MedianInterval, ASingleSampleHasNoneUnlessItIsExact) {
  EXPECT_FALSE(median_interval({1.0}).known());
  EXPECT_TRUE(median_interval({1.0}, true).known());
  EXPECT_FALSE(median_interval({}).known());
  EXPECT_THROW(median_interval({1.0, std::nan("")}), Error);
}

TEST(Compare, ModelledTimesAreExact) {
  Row row = timed_row("p");
  row.modelled_time = 1;
  EXPECT_EQ(compare_one(one_row({{1, 0}}, row), one_row({{1, 0}}, row)).verdict,
            SpeedVerdict::same);
  EXPECT_EQ(compare_one(one_row({{1, 0}}, row), one_row({{1.03, 0}}, row)).verdict,
            SpeedVerdict::slower);
  EXPECT_EQ(compare_one(one_row({{1, 0}}), one_row({{1, 0}})).verdict, SpeedVerdict::ambiguous);
}

TEST(Compare, AModelledTimeIsNotComparedWithAMeasuredOne) {
  std::mt19937_64 generator(kSeed);
  const StoredRows measured = one_row(draw(generator, 1, 0.002, 50));
  Row modelled = timed_row("p");
  modelled.device = "an emulator";
  modelled.modelled_time = 1;
  CompareOptions options;
  options.across_devices = true;
  for (const double time_ms : {0.5, 1.0, 2.0}) {
    const RowComparison row = compare_one(measured, one_row({{time_ms, 0}}, modelled), options);
    EXPECT_EQ(row.verdict, SpeedVerdict::ambiguous) << time_ms;
    EXPECT_TRUE(row.inconclusive) << time_ms;
    EXPECT_NE(row.reason.find("B is modelled and A measured"), std::string::npos) << row.reason;
  }
}

TEST(Compare, ALowerClockIsNoSlowdown) {
  std::mt19937_64 generator(kSeed);
  const StoredRows a = one_row(draw(generator, 1, 0.002, 50, 1980));
  const RowComparison clock =
      compare_one(a, one_row(draw(generator, 1.05, 0.002, 50, 1980 / 1.05)));
  EXPECT_EQ(clock.verdict, SpeedVerdict::ambiguous) << clock.reason;
  EXPECT_NE(clock.reason.find("clock differed"), std::string::npos) << clock.reason;
  const RowComparison kernel = compare_one(a, one_row(draw(generator, 1.05, 0.002, 50, 1980)));
  EXPECT_EQ(kernel.verdict, SpeedVerdict::slower) << kernel.reason;
}

// What a comparison could have shown: its own measurements, B's longer by so much.
TEST(Compare, APlantedSlowdownIsJudgedAsOneMeasured) {
  std::mt19937_64 generator(kSeed);
  const StoredRows a = one_row(draw(generator, 1, 0.002, 50, 1980));
  const StoredRows b = one_row(draw(generator, 1, 0.002, 50, 1980));
  CompareOptions options;
  EXPECT_EQ(compare({a}, {b}, options).rows.at(0).verdict, SpeedVerdict::same);
  options.planted_slowdown = 0.03;
  const RowComparison slower = compare({a}, {b}, options).rows.at(0);
  EXPECT_EQ(slower.verdict, SpeedVerdict::slower) << slower.reason;
  EXPECT_NEAR(slower.change, 0.03, 0.003);
  options.planted_slowdown = 0.015;
  EXPECT_EQ(compare({a}, {b}, options).rows.at(0).verdict, SpeedVerdict::ambiguous);
  options.planted_slowdown = 0.03;
  const StoredRows scattered = one_row(draw(generator, 1, 0.1, 12, 1980));
  EXPECT_EQ(compare({a}, {scattered}, options).rows.at(0).verdict, SpeedVerdict::ambiguous);
}

TEST(Compare, ProcessesAreTheSamplesWhereThereAreSeveral) {
  std::mt19937_64 generator(kSeed);
  // Quiet within a process, 4 % between processes: no verdict from one of each, none from three.
  const auto processes = [&](std::vector<double> medians_ms) {
    std::vector<StoredRows> side;
    for (const double median_ms : medians_ms) {
      side.push_back(one_row(draw(generator, median_ms, 0.001, 50)));
    }
    return side;
  };
  const CompareResult scattered =
      compare(processes({1.0, 1.04, 0.98}), processes({1.05, 1.0, 1.07}));
  EXPECT_EQ(scattered.rows.at(0).verdict, SpeedVerdict::ambiguous) << scattered.rows.at(0).reason;
  EXPECT_EQ(scattered.rows.at(0).a_ms.count, 3);
  const CompareResult quiet =
      compare(processes({1.0, 1.001, 0.999}), processes({1.03, 1.031, 1.0295}));
  EXPECT_EQ(quiet.rows.at(0).verdict, SpeedVerdict::slower) << quiet.rows.at(0).reason;
}

TEST(Compare, GrownErrorsAndFailedChecksAreNumericRegressions) {
  std::mt19937_64 generator(kSeed);
  const auto samples = draw(generator, 1, 0.002, 50);
  const StoredRows a = one_row(samples);
  const Row grown = with_error(timed_row("p"), "output", 5e-3);
  const CompareResult worse = compare({a}, {one_row(samples, grown)});
  EXPECT_TRUE(worse.rows.at(0).numeric_regression);
  EXPECT_EQ(worse.exit_code(), kExitNumericRegression);
  EXPECT_FALSE(compare({one_row(samples, grown)}, {a}).rows.at(0).numeric_regression);

  const Row nan = with_error(timed_row("p"), "output", std::nan(""));
  EXPECT_EQ(compare({a}, {one_row(samples, nan)}).exit_code(), kExitNumericRegression);
  Row silent = timed_row("p");
  silent.errors.clear();
  EXPECT_EQ(compare({a}, {one_row(samples, silent)}).exit_code(), kExitNumericRegression)
      << "an error that is no longer told is not a small one";

  Row failed = timed_row("p");
  failed.status = row_status::kFailed;
  failed.reason = "output 300x the floor";
  const CompareResult broken = compare({a}, {one_row({}, failed)});
  EXPECT_EQ(broken.exit_code(), kExitNumericRegression);
  EXPECT_NE(broken.rows.at(0).numeric_reason.find("300x"), std::string::npos);
}

TEST(Compare, ExitCodes) {
  std::mt19937_64 generator(kSeed);
  const StoredRows a = one_row(draw(generator, 1, 0.002, 50));
  EXPECT_EQ(compare({a}, {a}).exit_code(), 0);
  EXPECT_EQ(compare({a}, {one_row(draw(generator, 0.9, 0.002, 50))}).exit_code(), 0);
  EXPECT_EQ(compare({a}, {one_row(draw(generator, 1.1, 0.002, 50))}).exit_code(),
            kExitSpeedRegression);
  EXPECT_EQ(compare({a}, {one_row(draw(generator, 1, 0.3, 12))}).exit_code(), kExitInconclusive);
}

TEST(Compare, RowsOfOneSideAreMissing) {
  std::mt19937_64 generator(kSeed);
  StoredRows both = one_row(draw(generator, 1, 0.002, 50));
  const StoredRows one = both;
  both.add(timed_row("q"), draw(generator, 1, 0.002, 50));
  const CompareResult gone = compare({both}, {one});
  EXPECT_EQ(gone.count(SpeedVerdict::missing), 1);
  EXPECT_EQ(gone.exit_code(), kExitInconclusive) << "what was measured no longer is";
  const CompareResult added = compare({one}, {both});
  EXPECT_EQ(added.count(SpeedVerdict::missing), 1);
  EXPECT_EQ(added.exit_code(), 0);
  EXPECT_THROW(compare({one}, {one_row({}, timed_row("r"))}), Error) << "no row in common";
}

TEST(Compare, VerifiedRowsCompareErrorsAlone) {
  Row row = timed_row("p");
  row.mode = kVerifyMode;
  EXPECT_EQ(compare_one(one_row({}, row), one_row({}, row)).verdict, SpeedVerdict::untimed);
  const Row grown = with_error(row, "final_state", 1e-4);
  EXPECT_TRUE(compare_one(one_row({}, row), one_row({}, grown)).numeric_regression);
}

TEST(Compare, DifferentDevicesAreRefusedUnlessAskedFor) {
  std::mt19937_64 generator(kSeed);
  const StoredRows a = one_row(draw(generator, 1, 0.002, 50));
  Row elsewhere = timed_row("p");
  elsewhere.device = "another device";
  const StoredRows b = one_row(draw(generator, 1, 0.002, 50), elsewhere);
  try {
    compare({a}, {b});
    FAIL() << "compared different devices";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("another device"), std::string::npos) << error.what();
  }
  CompareOptions options;
  options.across_devices = true;
  const CompareResult result = compare({a}, {b}, options);
  EXPECT_EQ(result.rows.at(0).verdict, SpeedVerdict::same);
  EXPECT_NE(result.notes.at(0).find("DEVICES DIFFER"), std::string::npos) << result.notes.at(0);
}

TEST(Compare, TheLatestRowOfAFileCounts) {
  std::mt19937_64 generator(kSeed);
  StoredRows again = one_row(draw(generator, 2, 0.002, 50));
  Row later = timed_row("p");
  later.date = "2026-01-02T00:00:00Z";
  again.add(later, draw(generator, 1, 0.002, 50));
  EXPECT_EQ(compare_one(one_row(draw(generator, 1, 0.002, 50)), again).verdict, SpeedVerdict::same);
}

}  // namespace
}  // namespace gdn
