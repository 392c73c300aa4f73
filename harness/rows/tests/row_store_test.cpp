// Rows files: what is written is read back, appends survive a kill at any moment, a full disk and a
// foreign file are one clear error, merging keeps the latest of each key.
#include "harness/rows/row_store.h"

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
#include <set>
#include <thread>

#include "harness/tests/message_of.h"
#include "harness/tests/temporary_folder.h"
#include "interface/error.h"
#include "interface/operations/gated_delta.h"

namespace gdn {
namespace {

// A row whose every column, and every line of errors, holds a value that tells it from every other
// row and column.
Row numbered_row(int number) {
  Row row;
  double value = number * 1000.0;
  for (const RowColumn& column : row_columns()) {
    value += 1;
    if (column.is_text()) {
      column.set(row, column.name + " " + std::to_string(number));
    } else if (column.is_real()) {
      column.set(row, value + 0.1);
    } else {
      column.set(row, static_cast<std::int64_t>(value));
    }
  }
  for (int i = 0; i < number % 4; ++i) {
    const std::int64_t first_token = i == 0 ? RowError::kWhole : 64 * i;
    value += 1;
    row.errors.push_back({"output " + std::to_string(i), ErrorMetric::floor, first_token, value});
  }
  return row;
}

std::vector<TimeSample> numbered_samples(int number) {
  std::vector<TimeSample> samples;
  for (int i = 0; i < number % 5; ++i) samples.push_back({number + 0.25 * i, 1000.0 + number});
  return samples;
}

// Where the row's samples and errors lie is the file's business.
bool is_place_in_file(const RowColumn& column) {
  return column.name == "first_sample" || column.name == "sample_count" ||
         column.name == "first_error" || column.name == "error_count";
}

void expect_same_row(const Row& actual, const Row& expected) {
  for (const RowColumn& column : row_columns()) {
    if (is_place_in_file(column)) continue;
    EXPECT_EQ(column_text(actual, column), column_text(expected, column)) << column.name;
  }
  EXPECT_EQ(actual.errors, expected.errors) << actual.key();
}

void expect_numbered(const StoredRows& stored, int count) {
  ASSERT_EQ(stored.rows.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    expect_same_row(stored.rows[i], numbered_row(i));
    const auto samples = stored.samples_of(stored.rows[i]);
    const auto expected = numbered_samples(i);
    ASSERT_EQ(samples.size(), expected.size()) << "row " << i;
    for (std::size_t s = 0; s < samples.size(); ++s) {
      EXPECT_EQ(samples[s].time_ms, expected[s].time_ms);
      EXPECT_EQ(samples[s].clock_mhz, expected[s].clock_mhz);
    }
  }
}

TEST(RowColumns, AreNamedOnceAndFoundByName) {
  std::set<std::string> names;
  for (const RowColumn& column : known_columns()) {
    EXPECT_TRUE(names.insert(column.name).second) << column.name << " stands twice";
    EXPECT_FALSE(column.help.empty()) << column.name;
    EXPECT_EQ(find_row_column(column.name).name, column.name);
  }
  EXPECT_NE(message_of([] { find_row_column("time_m"); }).find("time_ms"), std::string::npos);
  EXPECT_NE(message_of([] {
              find_row_column("conv_output_relative_l1");
            }).find("'conv_output_relative_l2'"),
            std::string::npos);
}

// What files of "gdn-rows/1" called state_... is still found; what is called so itself stays it.
TEST(RowColumns, TheStatesErrorsAreFoundByTheirFirstNames) {
  for (const char* metric : {"relative_l2", "floor", "floor_ratio", "scaled_max"}) {
    EXPECT_EQ(find_row_column(std::string("state_") + metric).name,
              std::string("final_state_") + metric);
  }
  EXPECT_EQ(find_row_column("state_dtype").name, "state_dtype");
  EXPECT_EQ(find_row_column("state_layout").name, "state_layout");
}

TEST(RowColumns, FiguresNotMeasuredAreNanAndPrintAsNothing) {
  const Row row;
  int figures = 0;
  for (const RowColumn& column : known_columns()) {
    if (!column.is_real()) continue;
    ++figures;
    EXPECT_TRUE(std::isnan(std::get<double>(column.get(row)))) << column.name;
    EXPECT_EQ(column_text(row, column), "") << column.name;
  }
  EXPECT_GT(figures, 20);
}

TEST(RowColumns, ThoseOfErrorsAreOfTheOutputsThatAnyRowHas) {
  Row delta;
  delta.errors = {{"output", ErrorMetric::relative_l2, RowError::kWhole, 2e-3},
                  {"output", ErrorMetric::relative_l2, 64, 1e-3}};
  Row convolution;
  convolution.errors = {{"conv_output", ErrorMetric::limit, RowError::kWhole, 4e-3}};
  EXPECT_TRUE(error_columns({}).empty());
  std::set<std::string> names;
  for (const RowColumn& column : error_columns({delta, convolution})) names.insert(column.name);
  EXPECT_EQ(names.size(), 2u * 7) << "six metrics and the error by position of each";
  EXPECT_EQ(names.count("output_relative_l2"), 1u);
  EXPECT_EQ(names.count("conv_output_limit_ratio"), 1u);
  EXPECT_EQ(names.count("final_state_relative_l2"), 0u);
  EXPECT_EQ(columns_of({delta, convolution}).size(), row_columns().size() + names.size());
  EXPECT_EQ(column_text(delta, find_row_column("output_relative_l2")), "0.002");
  EXPECT_EQ(column_text(delta, find_row_column("output_error_by_position")), "64:0.001");
  EXPECT_EQ(column_text(delta, find_row_column("conv_output_limit")), "");
  EXPECT_EQ(column_text(convolution, find_row_column("conv_output_limit")), "0.004");
}

// A report of one output whose worst unit is the second.
reference::ErrorReport report_of(const std::string& output, const reference::TensorError& worst) {
  reference::ErrorReport report;
  report.checked_pairs = 1;
  reference::OutputErrors errors;
  errors.operand = gated_delta_operation().find_output(output);
  errors.units = {{{0, 0}, {}, 1}, {{0, 1}, worst, 1}};
  errors.worst_unit = 1;
  report.outputs.push_back(std::move(errors));
  report.limits[output].relative_l2 = 8e-3;
  return report;
}

TEST(RowColumns, ErrorsAreThoseOfTheWorstUnitBesideItsLimit) {
  Row row;
  row.errors = {{"conv_output", ErrorMetric::floor, RowError::kWhole, 1}};  // of an earlier report
  reference::ErrorReport report = report_of("final_state", {2e-3, 1e-3, 3e-3, 0, 2.0});
  describe_errors(report, row);
  EXPECT_EQ(row.error("final_state", ErrorMetric::relative_l2), 2e-3);
  EXPECT_EQ(row.error("final_state", ErrorMetric::floor), 1e-3);
  EXPECT_EQ(row.error("final_state", ErrorMetric::floor_ratio), 2.0);
  EXPECT_EQ(row.error("final_state", ErrorMetric::scaled_max), 3e-3);
  EXPECT_EQ(row.error("final_state", ErrorMetric::limit), 8e-3);
  EXPECT_EQ(row.error("final_state", ErrorMetric::limit_ratio), 0.25);
  EXPECT_TRUE(std::isnan(row.error("output", ErrorMetric::relative_l2)));
  EXPECT_TRUE(std::isnan(row.error("conv_output", ErrorMetric::floor)));
  // Where the stored type is finer than the tokens' the floor measures nothing.
  report.outputs[0].is_measured_in_floors = false;
  describe_errors(report, row);
  EXPECT_TRUE(std::isnan(row.error("final_state", ErrorMetric::floor_ratio)));
  EXPECT_EQ(row.error("final_state", ErrorMetric::limit_ratio), 0.25);
}

TEST(RowColumns, ErrorsByPositionReadBack) {
  Row row;
  reference::ErrorReport report = report_of("output", {2e-3, 1e-3, 3e-3, 0, 2.0});
  report.outputs[0].positions = {{0, 64, 1.25e-3}, {64, 64, 2e-7}, {128, 9, std::nan("")}};
  describe_errors(report, row);
  EXPECT_EQ(column_text(row, find_row_column("output_error_by_position")),
            "0:0.00125 64:2e-07 128:nan");
  EXPECT_EQ(row.error("output", ErrorMetric::relative_l2), 2e-3) << "of the whole output";
  const auto windows = position_errors(row, "output");
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[1].first_token, 64);
  EXPECT_EQ(windows[1].value, 2e-7);
  EXPECT_TRUE(std::isnan(windows[2].value));
  EXPECT_TRUE(position_errors(row, "final_state").empty());
  EXPECT_TRUE(position_errors(Row{}, "output").empty());
}

TEST(RowColumns, ColumnsOfTheProblemAreItsFieldsOrTheirDefaults) {
  Row row;
  EXPECT_EQ(row.integer("steps"), 1);
  EXPECT_EQ(row.text("update"), "delta");
  describe_problem(Problem::parse("gated_delta:heads=2/4,dim=8x6,seq=2x9,dtype=bf16,steps=3"), row);
  EXPECT_EQ(row.operation, "gated_delta");
  EXPECT_EQ(row.integer("steps"), 3);
  EXPECT_EQ(row.integer("num_value_heads"), 4);
  EXPECT_EQ(row.integer("total_tokens"), 18);
  EXPECT_EQ(row.text("sequences"), "2x9");
  EXPECT_EQ(row.text("output_dtype"), "bf16") << "that of the tokens, where none is asked for";
  for (const ProblemField& field : problem_fields()) {
    for (const FieldColumn& column : field.columns) {
      EXPECT_EQ(row.fields.count(column.name), 1u) << column.name;
    }
  }
  EXPECT_NE(message_of([&] { row.integer("step"); }).find("'step'"), std::string::npos);
  EXPECT_NE(message_of([&] { row.text("steps"); }).find("'steps' is not a text"),
            std::string::npos);
  EXPECT_NE(message_of([&] { row.integer("gates"); }).find("'gates' is not an integer"),
            std::string::npos);
}

TEST(RowStore, AppendedRowsErrorsAndSamplesReadBack) {
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
  expect_same_row(stored.rows[0], numbered_row(0));
  EXPECT_EQ(stored.rows[1].reason, wordy.reason);
  expect_same_row(stored.rows[2], numbered_row(2));
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

// Entries of a dataset of the file.
hsize_t entries_of(const std::string& path, const char* dataset) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t set = H5Dopen2(file, dataset, H5P_DEFAULT);
  const hid_t space = H5Dget_space(set);
  hsize_t extent = 0;
  H5Sget_simple_extent_dims(space, &extent, nullptr);
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
  return extent;
}

void drop_last_entry(const std::string& path, const char* dataset) {
  const hsize_t extent = entries_of(path, dataset) - 1;
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t set = H5Dopen2(file, dataset, H5P_DEFAULT);
  H5Dset_extent(set, &extent);
  H5Dclose(set);
  H5Fclose(file);
}

// Of each line of /errors the row it says it belongs to.
std::vector<std::int64_t> rows_of_error_lines(const std::string& path) {
  std::vector<std::int64_t> rows(entries_of(path, "errors"));
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t set = H5Dopen2(file, "errors", H5P_DEFAULT);
  const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(std::int64_t));
  H5Tinsert(type, "row", 0, H5T_NATIVE_INT64);
  H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data());
  H5Tclose(type);
  H5Dclose(set);
  H5Fclose(file);
  return rows;
}

// The same for the numbered rows 0 .. count - 1.
std::vector<std::int64_t> rows_of_numbered_lines(int count) {
  std::vector<std::int64_t> rows;
  for (int i = 0; i < count; ++i) rows.insert(rows.end(), numbered_row(i).errors.size(), i);
  return rows;
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
    EXPECT_EQ(rows_of_error_lines(path), rows_of_numbered_lines(next + 1)) << "trial " << trial;
  }
}

TEST(RowStore, EveryLineOfErrorsNamesItsRow) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  constexpr int kRows = 150;  // some appended in place, some by writing the file anew
  for (int i = 0; i < kRows; ++i) append_row(path, numbered_row(i), {});
  EXPECT_EQ(rows_of_error_lines(path), rows_of_numbered_lines(kRows));
  write_rows(path, read_rows(path));
  EXPECT_EQ(rows_of_error_lines(path), rows_of_numbered_lines(kRows));
}

// Killed between its errors and its row, an append leaves lines that no row owns. Read by /errors
// alone they would be taken for those of the next row.
TEST(RowStore, LinesOfARowThatNeverCameAreNotTheNextOnes) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  for (int i = 0; i < 7; ++i) append_row(path, numbered_row(i), numbered_samples(i));
  const hsize_t lines = entries_of(path, "errors");
  Row lost = numbered_row(3);
  append_row(path, lost, numbered_samples(3));
  ASSERT_EQ(entries_of(path, "errors"), lines + lost.errors.size());
  drop_last_entry(path, "rows");
  expect_numbered(read_rows(path), 7);
  append_row(path, numbered_row(7), numbered_samples(7));
  expect_numbered(read_rows(path), 8);
  EXPECT_EQ(rows_of_error_lines(path), rows_of_numbered_lines(8));
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
  // A name that leaves no room for that of the file which is written first.
  EXPECT_NE(message_of([&] {
              require_appendable(folder.file(std::string(250, 'r') + ".h5"));
            }).find("cannot be written"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { require_appendable(folder.file("rows.h5")); }), "");
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
  EXPECT_NE(message_of([&] { read_rows(foreign); }).find(kRowsSchema), std::string::npos);
  EXPECT_NE(message_of([&] { require_appendable(foreign); }), "");
}

TEST(RowStore, ARowHoldsSamplesUpToTheLastAndNoneBehindIt) {
  StoredRows stored;
  stored.add(numbered_row(1), numbered_samples(1));
  stored.add(numbered_row(3), numbered_samples(3));
  Row row = stored.rows.back();
  EXPECT_TRUE(stored.holds_samples_of(row));
  ++row.sample_count;
  EXPECT_FALSE(stored.holds_samples_of(row));
  row = stored.rows.back();
  ++row.first_sample;
  EXPECT_FALSE(stored.holds_samples_of(row));
  row.first_sample = -1;
  EXPECT_FALSE(stored.holds_samples_of(row));
}

TEST(RowStore, ErrorsAndSamplesThatAreNotThereAreNamed) {
  const TemporaryFolder folder;
  for (const char* dataset : {"errors", "samples"}) {
    const std::string path = folder.file(std::string(dataset) + ".h5");
    append_row(path, numbered_row(3), numbered_samples(3));
    drop_last_entry(path, dataset);
    const std::string message = message_of([&] { read_rows(path); });
    for (const std::string& said :
         {path, numbered_row(3).key(), std::string("lie outside the 2")}) {
      EXPECT_NE(message.find(said), std::string::npos) << message;
    }
    EXPECT_NE(message.find(std::string("/") + dataset), std::string::npos) << message;
  }
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
