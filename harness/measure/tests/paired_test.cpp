// Paired processes: the order A B B A ..., what counts as a failed process, and verdicts by ratios
// of pairs. The builds are shell scripts that hand out rows drawn beforehand, so that nothing here
// depends on the time anything takes.
#include "harness/measure/paired.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "harness/measure/compare.h"
#include "harness/tests/message_of.h"
#include "harness/tests/temporary_folder.h"
#include "interface/error.h"

namespace gdn {
namespace {

constexpr unsigned kSeed = 20261121;
constexpr int kRows = 40;

// Rows of one process: `kRows` problems, each row's samples about its median times `factor`, and
// the process's own shift of 0.4 %, which its samples do not show.
StoredRows process_rows(std::mt19937_64& generator, double factor) {
  std::normal_distribution<double> within(0, 0.002);
  std::normal_distribution<double> between(0, 0.002);
  StoredRows stored;
  for (int r = 0; r < kRows; ++r) {
    Row row;
    row.problem = "p" + std::to_string(r);
    row.implementation = "cpu/naive";
    row.mode = "cold";
    row.backend = "cpu";
    row.device = "a device";
    row.status = row_status::kOk;
    for (const char* dtype : {"token_dtype", "output_dtype", "state_dtype"}) {
      row.fields[dtype] = "f32";
    }
    const double median_ms = 0.1 * (1 + r) * factor * std::exp(between(generator));
    std::vector<TimeSample> samples;
    for (int i = 0; i < 30; ++i) samples.push_back({median_ms * std::exp(within(generator)), 0});
    stored.add(row, samples);
  }
  return stored;
}

// A binary that appends its name to the log and copies its next rows file to what follows --out.
std::string fake_binary(const TemporaryFolder& folder, const std::string& name,
                        const std::string& then = "") {
  const std::string path = folder.file(name);
  std::ofstream(path) << "#!/bin/sh\n"
                      << "echo " << name << " \"$@\" >> '" << folder.file("log") << "'\n"
                      << "for last; do :; done\n"
                      << "n=$(grep -c '^" << name << " ' '" << folder.file("log") << "')\n"
                      << (then.empty() ? "cp '" + path + "-'$n.h5 \"$last\"\n" : then);
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

// Both builds with `pairs` processes each; B's times are `slowdown` x A's, and every process of the
// same turn shares a drift that would hide 3 %.
PairedRuns run_fakes(int pairs, double slowdown, std::string* log = nullptr) {
  const TemporaryFolder folder;
  std::mt19937_64 generator(kSeed);
  for (int pair = 1; pair <= pairs; ++pair) {
    const double drift = 1 + 0.05 * pair;
    const auto file = [&](const char* name) {
      return folder.file(std::string(name) + "-" + std::to_string(pair) + ".h5");
    };
    write_rows(file("before"), process_rows(generator, drift));
    write_rows(file("after"), process_rows(generator, drift * slowdown));
  }
  PairedOptions options;
  options.a = fake_binary(folder, "before");
  options.b = fake_binary(folder, "after");
  options.pairs = pairs;
  options.sweep_arguments = {"--preset", "figure3"};
  options.folder = folder.file("rows");
  std::filesystem::create_directory(options.folder);
  const PairedRuns runs = run_paired(options);
  if (log != nullptr) {
    std::ifstream file(folder.file("log"));
    std::stringstream text;
    text << file.rdbuf();
    *log = text.str();
  }
  return runs;
}

CompareResult judged(const PairedRuns& runs) {
  CompareOptions options;
  options.paired = true;
  return compare(runs.a, runs.b, options);
}

TEST(Paired, RunsBothBuildsAlternatelyWithTheSameSweep) {
  std::string log;
  run_fakes(4, 1.0, &log);
  std::istringstream lines(log);
  std::string order;
  for (std::string line; std::getline(lines, line);) {
    order += line.substr(0, line.find(' ')) + " ";
    EXPECT_NE(line.find("sweep --preset figure3 --quiet --out "), std::string::npos) << line;
  }
  EXPECT_EQ(order, "before after after before before after after before ");
}

TEST(Paired, OneBuildTwiceIsTheSameInAtLeast95Percent) {
  const CompareResult result = judged(run_fakes(8, 1.0));
  EXPECT_GE(result.count(SpeedVerdict::same), kRows * 95 / 100) << "seed " << kSeed;
  EXPECT_EQ(result.count(SpeedVerdict::slower) + result.count(SpeedVerdict::faster), 0)
      << "seed " << kSeed;
}

TEST(Paired, APlantedSlowdownOfThreePercentIsFoundUnderDrift) {
  const PairedRuns runs = run_fakes(8, 1.03);
  const CompareResult result = judged(runs);
  EXPECT_GE(result.count(SpeedVerdict::slower), kRows * 95 / 100) << "seed " << kSeed;
  EXPECT_EQ(result.exit_code(), kExitSpeedRegression);
  // Not paired, the drift between the turns leaves nothing to say.
  EXPECT_EQ(compare(runs.a, runs.b).count(SpeedVerdict::ambiguous), kRows);
}

TEST(Paired, SidesOfDifferentLengthAreRefused) {
  PairedRuns runs = run_fakes(2, 1.0);
  runs.b.pop_back();
  EXPECT_NE(message_of([&] { judged(runs); }).find("2 processes of A and 1 of B"),
            std::string::npos);
}

TEST(Paired, APairWithoutARowIsNoSample) {
  PairedRuns runs = run_fakes(2, 1.0);
  runs.b[1].rows.clear();
  const CompareResult result = judged(runs);
  EXPECT_EQ(result.count(SpeedVerdict::ambiguous), kRows);
  EXPECT_NE(result.rows.at(0).reason.find("fewer than two pairs"), std::string::npos)
      << result.rows.at(0).reason;
}

TEST(Paired, ProcessesThatFailAreNamed) {
  const TemporaryFolder folder;
  PairedOptions options;
  options.folder = folder.path().string();
  options.pairs = 2;
  options.b = fake_binary(folder, "b");
  options.a = folder.file("absent");
  EXPECT_NE(message_of([&] { run_paired(options); }).find("absent' is not an executable"),
            std::string::npos);
  options.a = fake_binary(folder, "usage", "exit 2\n");
  EXPECT_NE(message_of([&] { run_paired(options); }).find("exit code 2"), std::string::npos);
  options.a = fake_binary(folder, "crash", "kill -SEGV $$\n");
  EXPECT_NE(message_of([&] { run_paired(options); }).find("signal 11"), std::string::npos);
  options.a = fake_binary(folder, "silent", "exit 0\n");
  EXPECT_NE(message_of([&] { run_paired(options); }).find("a-1.h5': no such file"),
            std::string::npos);
  std::ofstream(folder.file("a-2.h5")) << "earlier";
  EXPECT_NE(message_of([&] { run_paired(options); }).find("without earlier runs"),
            std::string::npos);
}

}  // namespace
}  // namespace gdn
