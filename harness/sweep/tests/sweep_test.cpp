// Sweeps: every outcome is a row, finished rows are not made again, shards partition the grid.
#include "harness/sweep/sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <new>
#include <numeric>
#include <set>
#include <stdexcept>

#include "harness/operations/generate_case.h"
#include "harness/problems/shard.h"
#include "harness/rows/row_store.h"
#include "harness/run/memory_needed.h"
#include "harness/tests/temporary_folder.h"
#include "harness/verify/verification_cost.h"
#include "harness/verify/verification_share.h"
#include "interface/error.h"
#include "interface/operations/gated_delta.h"
#include "interface/select.h"

namespace gdn {
namespace {

class RowList : public RowSink {
 public:
  bool is_finished(const Row&) const override { return false; }
  void add(const Row& row, const std::vector<TimeSample>&) override { rows.push_back(row); }
  std::vector<Row> rows;
};

// Fails in a way of its choosing when planned.
class Failing : public Implementation {
 public:
  explicit Failing(std::function<void()> failure) : failure_(std::move(failure)) {
    description_.name = "cpu/failing";
    description_.backend = "cpu";
  }
  const Description& description() const override { return description_; }
  Support supports(const Problem& problem) const override {
    return problem.key_head_dim == 24 ? Support::no("Dk=24 is not wanted") : Support::yes();
  }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return problem.key_head_dim == 40 ? std::int64_t{1} << 60 : 0;
  }
  std::unique_ptr<Plan> plan(const Problem&, const Arguments&, Device&) const override {
    failure_();
    return nullptr;
  }

 private:
  Description description_;
  std::function<void()> failure_;
};

Problem small(const std::string& dim = "16") {
  return Problem::parse("gated_delta:heads=1/2,dim=" + dim + ",seq=1x5,dtype=f32");
}

SweepOptions brief() {
  SweepOptions options;
  options.measure.mode = CacheMode::hot;
  options.measure.stopping.min_samples = 3;
  options.measure.stopping.max_samples = 3;
  options.measure.stopping.min_time_s = 0;
  return options;
}

const Implementation& naive() { return find_implementation(gated_delta_operation(), "cpu/naive"); }

Row only_row(const Implementation& implementation, const Problem& problem,
             const SweepOptions& options = brief()) {
  RowList list;
  const auto device = open_device("cpu");
  sweep({problem}, {&implementation}, *device, options, list, nullptr, nullptr);
  EXPECT_EQ(list.rows.size(), 1u);
  return list.rows.empty() ? Row() : list.rows[0];
}

TEST(SweepRow, OfASuccessHoldsErrorsTimesAndOrigin) {
  const Row row = only_row(naive(), small());
  EXPECT_EQ(row.status, row_status::kOk) << row.reason;
  EXPECT_EQ(row.problem, small().to_string());
  EXPECT_EQ(row.implementation, "cpu/naive");
  EXPECT_EQ(row.mode, "hot");
  EXPECT_GE(row.error("output", ErrorMetric::floor_ratio), 0);
  EXPECT_GT(row.error("final_state", ErrorMetric::limit), 0);
  EXPECT_GT(row.time_ms, 0);
  EXPECT_EQ(row.verified_before + row.verified_after, 2);
  EXPECT_EQ(row.sample_count, 3);
  EXPECT_EQ(row.source_hash.size(), 64u);
  // Empty where Git does not say.
  const std::size_t end = row.source_commit.find_first_not_of("0123456789abcdef");
  const bool changed = end == 40 && row.source_commit.substr(end) == "+changes";
  EXPECT_TRUE(row.source_commit.empty() || changed ||
              (row.source_commit.size() == 40 && end == std::string::npos))
      << row.source_commit;
  EXPECT_EQ(row.date.size(), 20u);
  EXPECT_FALSE(row.device.empty());
}

TEST(SweepRow, VerifyOnlyHasErrorsAndNoTimes) {
  SweepOptions options = brief();
  options.time = false;
  const Row row = only_row(naive(), small(), options);
  EXPECT_EQ(row.mode, kVerifyMode);
  EXPECT_EQ(row.status, row_status::kOk) << row.reason;
  EXPECT_EQ(row.checked_pairs, 2);
  EXPECT_GE(row.error("output", ErrorMetric::relative_l2), 0);
  EXPECT_TRUE(std::isnan(row.time_ms));
}

TEST(SweepRow, EveryFailureIsAStatusWithItsReason) {
  struct Expected {
    Problem problem;
    std::function<void()> failure;
    const char* status;
    const char* reason;
  };
  const auto throwing = [](ErrorKind kind) {
    return [kind] { throw Error(kind, "the reason\nof it"); };
  };
  const std::vector<Expected> all = {
      {small("24"), [] {}, row_status::kSkipped, "Dk=24 is not wanted"},
      {small("40"), [] {}, row_status::kOutOfMemory, "bytes"},
      {small(), throwing(ErrorKind::unsupported), row_status::kSkipped, "the reason of it"},
      {small(), throwing(ErrorKind::out_of_memory), row_status::kOutOfMemory, "the reason"},
      {small(), throwing(ErrorKind::device_failure), row_status::kDeviceFailure, "the reason"},
      {small(), throwing(ErrorKind::bad_input), row_status::kFailed, "the reason"},
      {small(), [] { throw std::bad_alloc(); }, row_status::kOutOfMemory, "host memory"},
      {small(), [] { throw std::logic_error("odd"); }, row_status::kFailed, "odd"}};
  for (const Expected& expected : all) {
    const Row row = only_row(Failing(expected.failure), expected.problem);
    EXPECT_EQ(row.status, expected.status) << expected.reason;
    EXPECT_NE(row.reason.find(expected.reason), std::string::npos) << row.reason;
  }
}

TEST(Sweep, AFailingCaseDoesNotStopTheOthers) {
  const Failing failing([] { throw Error(ErrorKind::device_failure, "broken"); });
  RowList list;
  const auto device = open_device("cpu");
  std::vector<SweepProgress> seen;
  const SweepTotals totals = sweep(
      {small(), small("32")}, {&failing, &naive()}, *device, brief(), list,
      [&](const SweepProgress& progress) { seen.push_back(progress); }, nullptr);
  EXPECT_EQ(totals.rows, 4);
  EXPECT_EQ(totals.ok, 2);
  EXPECT_EQ(totals.failed, 2);
  ASSERT_EQ(seen.size(), 5u);
  EXPECT_TRUE(std::isnan(seen.front().left_s));
  for (std::size_t i = 1; i < 4; ++i) {
    // As long for each row that is left as it took for each that was made.
    const double left = seen[i].elapsed_s * static_cast<double>(4 - i) / static_cast<double>(i);
    EXPECT_TRUE(std::abs(seen[i].left_s - left) <= 1e-9 * left) << i << ": " << seen[i].left_s;
  }
  EXPECT_EQ(seen.back().done, 4);
  EXPECT_EQ(seen.back().total, 4);
}

TEST(Sweep, ImplementationsMeetOnlyProblemsOfTheirOperation) {
  RowList list;
  const auto device = open_device("cpu");
  sweep({Problem::parse("causal_conv1d:heads=1/1,dim=8,seq=1x5,dtype=f32")}, {&naive()}, *device,
        brief(), list, nullptr, nullptr);
  EXPECT_TRUE(list.rows.empty());
}

TEST(Sweep, FinishedRowsAreNotMadeAgain) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  const auto device = open_device("cpu");
  const std::vector<Problem> problems = {small(), small("24"), small("32")};
  const Failing failing([] { throw Error(ErrorKind::bad_input, "broken"); });
  const auto run = [&](bool retry_failed, const SweepOptions& options = brief()) {
    RowFileSink sink(path, retry_failed);
    return sweep(problems, {&naive(), &failing}, *device, options, sink, nullptr, nullptr);
  };
  EXPECT_EQ(run(false).rows, 6);
  const SweepTotals again = run(false);
  EXPECT_EQ(again.rows, 0);
  EXPECT_EQ(again.resumed, 6);
  EXPECT_EQ(run(true).rows, 2) << "the two that failed; not the one skipped";
  SweepOptions cold = brief();
  cold.measure.mode = CacheMode::cold;
  EXPECT_EQ(run(false, cold).rows, 6) << "another mode is another measurement";
}

TEST(Sweep, RowsOfOtherSourcesOrDevicesAreNotTakenForFinished) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  const Row row = only_row(naive(), small());
  append_row(path, row, {});
  EXPECT_TRUE(RowFileSink(path, false).is_finished(row));
  Row other = row;
  other.source_hash = "other";
  EXPECT_FALSE(RowFileSink(path, false).is_finished(other));
  other = row;
  other.device = "other";
  EXPECT_FALSE(RowFileSink(path, false).is_finished(other));
}

TEST(Shards, AreDisjointAndComplete) {
  std::vector<Problem> problems;
  for (int tokens = 1; tokens <= 23; ++tokens) {
    problems.push_back(small());
    problems.back().sequences.lengths = {tokens};
  }
  for (const int count : {1, 2, 3, 7, 23, 40}) {
    std::multiset<std::string> seen;
    std::size_t largest = 0;
    for (int index = 1; index <= count; ++index) {
      const auto part = part_of(problems, {index, count});
      largest = std::max(largest, part.size());
      for (const Problem& problem : part) seen.insert(problem.to_string());
    }
    EXPECT_EQ(seen.size(), problems.size()) << count;
    for (const Problem& problem : problems) EXPECT_EQ(seen.count(problem.to_string()), 1u) << count;
    EXPECT_EQ(largest, (problems.size() + static_cast<std::size_t>(count) - 1) /
                           static_cast<std::size_t>(count));
  }
}

TEST(Shards, OfEqualWorkAreDisjointCompleteAndEven) {
  const auto work = [](int item) { return static_cast<double>(item); };
  std::vector<int> items;  // three large ones side by side among many small
  for (int i = 1; i <= 40; ++i) items.push_back(i <= 3 ? 100 : i % 5 + 1);
  const double total = std::accumulate(items.begin(), items.end(), 0.0);
  for (const int count : {2, 3, 7}) {
    std::vector<int> seen;
    for (int index = 1; index <= count; ++index) {
      const std::vector<int> part = part_of_equal_work(items, {index, count}, work);
      EXPECT_TRUE(std::is_sorted(part.rbegin(), part.rend())) << "largest first: " << index;
      // A part ends within one small item of the others, where no single item is larger than it.
      const double load = std::accumulate(part.begin(), part.end(), 0.0);
      EXPECT_LE(load, std::max(total / count, 100.0) + 5) << index << "/" << count;
      seen.insert(seen.end(), part.begin(), part.end());
    }
    std::vector<int> expected = items;
    std::sort(expected.begin(), expected.end());
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, expected) << count;
  }
  EXPECT_EQ(part_of_equal_work(items, {1, 1}, work), items);
}

TEST(Shards, DealTheImplementationsOfALargeProblemToSeveral) {
  const Implementation* const naive = &find_implementation(gated_delta_operation(), "cpu/naive");
  const Implementation* const other =
      &find_implementation(gated_delta_operation(), "cpu/recurrent");
  std::vector<VerificationTask> tasks;
  for (int tokens = 1; tokens <= 9; ++tokens) {
    SuiteProblem entry{small(), "-", "-", false, false};
    entry.problem.sequences.lengths = {tokens == 5 ? 1000 : tokens};
    tasks.push_back({entry, {naive, other}});
  }
  const auto work = [](const VerificationTask& task) {
    return static_cast<double>(task.implementations.size()) *
           static_cast<double>(task.entry.problem.total_tokens());
  };
  std::multiset<std::string> seen;
  int with_large = 0;
  for (int index = 1; index <= 3; ++index) {
    std::set<std::string> problems;
    for (const VerificationTask& task : share_of(tasks, {index, 3}, work)) {
      const std::string problem = task.entry.problem.to_string();
      EXPECT_TRUE(problems.insert(problem).second) << "one task per problem: " << problem;
      if (task.entry.problem.total_tokens() == 1000) ++with_large;
      for (const Implementation* implementation : task.implementations) {
        seen.insert(problem + " " + implementation->description().name);
      }
    }
  }
  EXPECT_EQ(with_large, 2);
  EXPECT_EQ(seen.size(), 18u);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 18u);
  EXPECT_EQ(share_of(tasks, {1, 1}, work).size(), tasks.size());
}

TEST(Shards, WorkersTakeTheLargestFirstAndALargeProblemInParts) {
  const Implementation* const naive = &find_implementation(gated_delta_operation(), "cpu/naive");
  const Implementation* const other =
      &find_implementation(gated_delta_operation(), "cpu/recurrent");
  std::vector<VerificationTask> tasks;
  for (const std::int64_t tokens : {3, 1000, 7, 5}) {
    SuiteProblem entry{small(), "-", "-", false, false};
    entry.problem.sequences.lengths = {tokens};
    tasks.push_back({entry, {naive, other}});
  }
  const auto work = [](const VerificationTask& task) {
    return static_cast<double>(task.implementations.size()) *
           static_cast<double>(task.entry.problem.total_tokens());
  };
  std::vector<std::string> order;
  for (const VerificationTask& task : for_workers(tasks, 4, work)) {
    order.push_back(std::to_string(task.entry.problem.total_tokens()) + "x" +
                    std::to_string(task.implementations.size()));
  }
  EXPECT_EQ(order, (std::vector<std::string>{"1000x1", "1000x1", "7x2", "5x2", "3x2"}));
  EXPECT_EQ(for_workers(tasks, 1, work).front().entry.problem.total_tokens(), 3);
}

// A device of 2 GB: the second problem's pool is more, whatever is free.
TEST(Shards, WhatIsLeftOutCountsForNextToNothing) {
  const Implementation* const naive = &find_implementation(gated_delta_operation(), "cpu/naive");
  const auto task = [&](const char* problem) {
    return VerificationTask{{Problem::parse(problem), "-", "-", false, false}, {naive}};
  };
  const VerificationTask fits = task("gated_delta:heads=1/1,dim=64,seq=5x70,h0=normal");
  const VerificationTask too_large =
      task("gated_delta:heads=1/1,dim=64,seq=5x70,h0=normal,pool_pad=1100000000");
  const Failing failing([] {});
  VerificationTask unsupported = task("gated_delta:heads=1/1,dim=24,seq=5x70");
  unsupported.implementations = {&failing};
  DeviceInfo device;
  device.backend = device.runs = "cpu";
  device.memory_bytes = 2'000'000'000;
  const double any = std::numeric_limits<double>::infinity();
  EXPECT_EQ(work_to_share(fits, {}, device, any), verification_work(fits.entry.problem, {}, 1));
  EXPECT_EQ(work_to_share(too_large, {}, device, any), 1);
  EXPECT_EQ(work_to_share(unsupported, {}, device, any), 1);
  EXPECT_EQ(work_to_share(fits, {}, device, 1e6), 1);  // 8.6e6 operations

  // A CPU holds the host's side of a case beside it; the last byte counts.
  const Problem& p = fits.entry.problem;
  const std::int64_t needed =
      device_bytes_needed(p) + host_bytes_needed(p) + naive->workspace_bytes(p);
  device.memory_bytes = needed;
  EXPECT_FALSE(is_left_out(fits, device, any));
  device.memory_bytes = needed - 1;
  EXPECT_TRUE(is_left_out(fits, device, any));
  DeviceInfo card = device;
  card.has_own_memory = true;
  EXPECT_FALSE(is_left_out(fits, card, any));
  DeviceInfo emulator = device;
  emulator.emulated = true;
  EXPECT_FALSE(is_left_out(fits, emulator, any));
}

TEST(Shards, ParseAndRefuse) {
  EXPECT_EQ(Shard::parse("2/8").index, 2);
  EXPECT_EQ(Shard::parse("2/8").count, 8);
  for (const char* text : {"", "2", "0/8", "9/8", "2/", "/8", "a/b", "2/8x", "-1/8"}) {
    EXPECT_THROW(Shard::parse(text), Error) << text;
  }
}

TEST(ChooseImplementations, NamesWhatIsMeant) {
  DeviceInfo cpu;
  cpu.backend = cpu.runs = "cpu";
  for (const Implementation* implementation : choose_implementations({}, cpu)) {
    EXPECT_EQ(implementation->description().backend, "cpu");
  }
  try {
    choose_implementations({"cpu/naiv"}, cpu);
    FAIL() << "an unknown name was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cpu/naive"), std::string::npos) << error.what();
  }
  DeviceInfo gpu;
  gpu.backend = gpu.runs = "cuda";
  EXPECT_THROW(choose_implementations({"cpu/naive"}, gpu), Error);
}

}  // namespace
}  // namespace gdn
