// Rows files: what is written is read back, appends survive a kill at any moment, a full disk and a
// foreign file are one clear error, merging keeps the latest of each key.
#include "harness/row_store.h"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "harness/tests/temporary_folder.h"
#include "interface/error.h"

namespace gdn {
namespace {

// A row whose every column holds a value that tells it from every other row and column.
Row numbered_row(int number) {
  Row row;
  double value = number * 1000.0;
  for (const RowColumn& column : row_columns()) {
    value += 1;
    if (const auto* text = std::get_if<std::string Row::*>(&column.member)) {
      row.** text = column.name + " " + std::to_string(number);
    } else if (const auto* real = std::get_if<double Row::*>(&column.member)) {
      row.** real = value + 0.1;
    } else {
      row.*std::get<std::int64_t Row::*>(column.member) = static_cast<std::int64_t>(value);
    }
  }
  return row;
}

std::vector<TimeSample> numbered_samples(int number) {
  std::vector<TimeSample> samples;
  for (int i = 0; i < number % 5; ++i) samples.push_back({number + 0.25 * i, 1000.0 + number});
  return samples;
}

void expect_same_columns(const Row& actual, const Row& expected) {
  for (const RowColumn& column : row_columns()) {
    if (column.name == "first_sample" || column.name == "sample_count") continue;
    EXPECT_EQ(column_text(actual, column), column_text(expected, column)) << column.name;
  }
}

void expect_numbered(const StoredRows& stored, int count) {
  ASSERT_EQ(stored.rows.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    expect_same_columns(stored.rows[i], numbered_row(i));
    const auto samples = stored.samples_of(stored.rows[i]);
    const auto expected = numbered_samples(i);
    ASSERT_EQ(samples.size(), expected.size()) << "row " << i;
    for (std::size_t s = 0; s < samples.size(); ++s) {
      EXPECT_EQ(samples[s].time_ms, expected[s].time_ms);
      EXPECT_EQ(samples[s].clock_mhz, expected[s].clock_mhz);
    }
  }
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  return "";
}

TEST(RowColumns, AreNamedOnceAndFoundByName) {
  std::set<std::string> names;
  for (const RowColumn& column : row_columns()) {
    EXPECT_TRUE(names.insert(column.name).second) << column.name << " stands twice";
    EXPECT_FALSE(column.help.empty()) << column.name;
  }
  EXPECT_EQ(find_row_column("time_ms").name, "time_ms");
  EXPECT_NE(message_of([] { find_row_column("time_m"); }).find("time_ms"), std::string::npos);
}

TEST(RowColumns, FiguresNotMeasuredAreNanAndPrintAsNothing) {
  const Row row;
  for (const RowColumn& column : row_columns()) {
    if (const auto* real = std::get_if<double Row::*>(&column.member)) {
      EXPECT_TRUE(std::isnan(row.**real)) << column.name;
      EXPECT_EQ(column_text(row, column), "") << column.name;
    }
  }
}

TEST(RowColumns, ErrorsByPositionReadBack) {
  Row row;
  row.operation = "gated_delta";
  reference::ErrorReport report;
  report.checked_pairs = 1;
  report.positions = {{0, 64, 1.25e-3}, {64, 64, 2e-7}, {128, 9, std::nan("")}};
  describe_errors(report, row);
  EXPECT_EQ(row.output_error_by_position, "0:0.00125 64:2e-07 128:nan");
  const auto windows = position_errors(row);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[1].first_token, 64);
  EXPECT_EQ(windows[1].relative_l2, 2e-7);
  EXPECT_TRUE(std::isnan(windows[2].relative_l2));
  EXPECT_TRUE(position_errors(Row{}).empty());
  for (const char* wrong : {"64", "64:", "a:1", "0:1 64", "0:1,64:2"}) {
    row.output_error_by_position = wrong;
    EXPECT_NE(message_of([&] { position_errors(row); }).find("expected 'TOKEN:ERROR"),
              std::string::npos)
        << wrong;
  }
}

TEST(RowStore, AppendedRowsAndSamplesReadBack) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  constexpr int kRows = 150;  // crosses the room of the first two files
  for (int i = 0; i < kRows; ++i) append_row(path, numbered_row(i), numbered_samples(i));
  expect_numbered(read_rows(path), kRows);
}

TEST(RowStore, EveryPrefixIsReadable) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  for (int i = 0; i < 40; ++i) {
    append_row(path, numbered_row(i), numbered_samples(i));
    expect_numbered(read_rows(path), i + 1);
  }
}

TEST(RowStore, LongStringsWidenTheColumnAndLoseNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  append_row(path, numbered_row(0), numbered_samples(0));
  Row wordy = numbered_row(1);
  wordy.reason = std::string(5000, 'r');
  append_row(path, wordy, {});
  append_row(path, numbered_row(2), numbered_samples(2));
  const StoredRows stored = read_rows(path);
  ASSERT_EQ(stored.rows.size(), 3u);
  expect_same_columns(stored.rows[0], numbered_row(0));
  EXPECT_EQ(stored.rows[1].reason, wordy.reason);
  expect_same_columns(stored.rows[2], numbered_row(2));
}

TEST(RowStore, OrdinaryAppendsDoNotRewriteTheFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  append_row(path, numbered_row(0), {});
  append_row(path, numbered_row(1), {});
  const auto inode = [&] {
    struct stat status {};
    stat(path.c_str(), &status);
    return status.st_ino;
  };
  const auto before = inode();
  const auto size = std::filesystem::file_size(path);
  for (int i = 2; i < 10; ++i) append_row(path, numbered_row(i), {});
  EXPECT_EQ(inode(), before);
  EXPECT_EQ(std::filesystem::file_size(path), size);
}

TEST(RowStore, KilledAtAnyMomentLeavesWholeRows) {
  const TemporaryFolder folder;
  for (int trial = 0; trial < 25; ++trial) {
    const std::string path = folder.file("killed" + std::to_string(trial) + ".h5");
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 0;; ++i) append_row(path, numbered_row(i), numbered_samples(i));
    }
    // Until there is something to lose; then a different while in every trial.
    while (!std::filesystem::exists(path))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + 1777 * trial));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const StoredRows stored = read_rows(path);
    ASSERT_GE(stored.rows.size(), 1u) << "trial " << trial;
    expect_numbered(stored, static_cast<int>(stored.rows.size()));
    const int next = static_cast<int>(stored.rows.size());
    append_row(path, numbered_row(next), numbered_samples(next));
    expect_numbered(read_rows(path), next + 1);
  }
}

TEST(RowStore, FullDiskIsOneErrorAndKeepsTheRows) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  const std::string report = folder.file("report");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Files of this process end at 200 KB: the same error path as a full disk, whose number
    // differs.
    const struct rlimit limit { 200000, 200000 };
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);
    try {
      for (int i = 0; i < 100000; ++i) append_row(path, numbered_row(i), numbered_samples(i));
    } catch (const Error& error) {
      std::ofstream(report) << error.what();
      _exit(error.kind() == ErrorKind::bad_input ? 0 : 1);
    }
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::string message;
  std::getline(std::ifstream(report), message);
  EXPECT_NE(message.find(path), std::string::npos) << message;
  EXPECT_NE(message.find("stored before are intact"), std::string::npos) << message;
  const StoredRows stored = read_rows(path);
  EXPECT_GE(stored.rows.size(), 10u);
  expect_numbered(stored, static_cast<int>(stored.rows.size()));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().string().find(".partial"), std::string::npos) << entry.path();
  }
}

TEST(RowStore, TargetsThatAreNoFilesAreRefusedUntouched) {
  EXPECT_NE(
      message_of([] { append_row("/dev/full", numbered_row(0), {}); }).find("not a regular file"),
      std::string::npos);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  const TemporaryFolder folder;
  EXPECT_NE(
      message_of([&] { require_appendable(folder.file("absent/rows.h5")); }).find("does not exist"),
      std::string::npos);
  EXPECT_NE(message_of([&] { append_row(folder.file("absent/rows.h5"), numbered_row(0), {}); }),
            "");
}

TEST(RowStore, MissingTruncatedAndForeignFilesAreNamed) {
  const TemporaryFolder folder;
  const std::string missing = folder.file("missing.h5");
  EXPECT_NE(message_of([&] { read_rows(missing); }).find("no such file"), std::string::npos);

  const std::string text = folder.file("text.h5");
  std::ofstream(text) << "not HDF5";
  EXPECT_NE(message_of([&] { read_rows(text); }).find("not a readable HDF5 file"),
            std::string::npos);
  EXPECT_NE(message_of([&] { append_row(text, numbered_row(0), {}); }), "");

  const std::string truncated = folder.file("truncated.h5");
  append_row(truncated, numbered_row(0), {});
  std::filesystem::resize_file(truncated, std::filesystem::file_size(truncated) / 2);
  EXPECT_NE(message_of([&] { read_rows(truncated); }).find(truncated), std::string::npos);

  const std::string foreign = folder.file("foreign.h5");
  H5Fclose(H5Fcreate(foreign.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  EXPECT_NE(message_of([&] { read_rows(foreign); }).find("gdn-rows/1"), std::string::npos);
  EXPECT_NE(message_of([&] { require_appendable(foreign); }), "");
}

TEST(RowStore, WritingReplacesAsAWhole) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  StoredRows first;
  for (int i = 0; i < 3; ++i) first.add(numbered_row(i), numbered_samples(i));
  write_rows(path, first);
  expect_numbered(read_rows(path), 3);
  append_row(path, numbered_row(3), numbered_samples(3));  // no spare room was left: the file grows
  expect_numbered(read_rows(path), 4);
  write_rows(path, {});
  EXPECT_TRUE(read_rows(path).rows.empty());
}

TEST(MergeRows, JoinsFilesAndKeepsTheLatestOfEachKey) {
  const TemporaryFolder folder;
  const auto row = [](const std::string& problem, const std::string& date, double time_ms) {
    Row r;
    r.problem = problem;
    r.implementation = "cpu/naive";
    r.mode = "cold";
    r.device = "a device";
    r.status = row_status::kOk;
    r.date = date;
    r.time_ms = time_ms;
    return r;
  };
  const std::string a = folder.file("a.h5");
  const std::string b = folder.file("b.h5");
  append_row(a, row("p1", "2026-01-02T00:00:00Z", 1), {{1, 0}});
  append_row(a, row("p2", "2026-01-02T00:00:00Z", 2), {{2, 0}, {2, 0}});
  append_row(b, row("p2", "2026-01-01T00:00:00Z", 3), {{3, 0}});  // older than a's
  append_row(b, row("p1", "2026-01-03T00:00:00Z", 4), {{4, 0}, {4, 0}, {4, 0}});
  Row elsewhere = row("p1", "2026-01-01T00:00:00Z", 5);
  elsewhere.device = "another device";
  append_row(b, elsewhere, {});

  const StoredRows merged = merge_rows({a, b});
  ASSERT_EQ(merged.rows.size(), 3u);
  EXPECT_EQ(merged.rows[0].time_ms, 4);
  EXPECT_EQ(merged.samples_of(merged.rows[0]).size(), 3u);
  EXPECT_EQ(merged.rows[1].time_ms, 2);
  EXPECT_EQ(merged.samples_of(merged.rows[1]).at(1).time_ms, 2);
  EXPECT_EQ(merged.rows[2].time_ms, 5);
  EXPECT_EQ(merged.samples.size(), 5u) << "samples of replaced rows are left behind";
}

}  // namespace
}  // namespace gdn
