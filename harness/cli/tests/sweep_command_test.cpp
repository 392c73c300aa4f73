// The built binary: a sweep killed in the middle resumes, a full disk keeps its rows, shards merge
// to the whole, bench refuses wrong flags, tables come out.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "harness/rows/row_store.h"
#include "harness/rows/rows_file_lock.h"
#include "harness/tests/shell.h"
#include "harness/tests/temporary_folder.h"
#include "interface/error.h"

namespace gdn {
namespace {

const std::string kBinary = GDN_BINARY_DIR "/gdnbench";
// Quick rows: a few hot samples of the CPU's token loop.
const std::string kQuick =
    " --impl cpu/naive,cpu/recurrent --device cpu --hot --min-samples 3 --max-samples 3 "
    "--min-time 0 --heads 1/1 --dim 16 ";

std::string lengths(int count) {
  std::string text;
  for (int i = 1; i <= count; ++i) text += (i == 1 ? "" : ",") + std::to_string(i);
  return text;
}

std::set<std::string> keys_of(const std::vector<Row>& rows) {
  std::set<std::string> keys;
  for (const Row& row : rows) {
    EXPECT_TRUE(keys.insert(row.key()).second) << row.key() << " stands twice";
    EXPECT_TRUE(row.ok()) << row.key() << ": " << row.reason;
  }
  return keys;
}

// Starts the command with a progress line for every row and kills it after the line for
// `rows_done`. Its stderr is a pipe of one page: it cannot run ahead of this process by more than a
// page of lines, however busy the machine.
void run_and_kill(const std::string& command, int rows_done) {
  std::array<int, 2> lines{};
  ASSERT_EQ(pipe(lines.data()), 0);
  ASSERT_LE(fcntl(lines[1], F_SETPIPE_SZ, 4096), 4096);
  const pid_t child = fork();
  if (child == 0) {
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    dup2(lines[1], STDERR_FILENO);
    close(lines[0]);
    execl("/bin/sh", "sh", "-c", ("exec " + command + " --log-every 0").c_str(), nullptr);
    _exit(127);
  }
  close(lines[1]);
  const std::string wanted = std::to_string(rows_done) + "/";
  std::string line;
  std::string seen;
  char next = 0;
  while (line.rfind(wanted, 0) != 0 && read(lines[0], &next, 1) == 1) {
    seen += next;
    line = next == '\n' ? "" : line + next;
  }
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  close(lines[0]);
  ASSERT_TRUE(WIFSIGNALED(status)) << command << " ended by itself:\n" << seen;
}

TEST(SweepCommand, KilledInTheMiddleItResumesAndMakesNothingTwice) {
  const TemporaryFolder folder;
  constexpr std::size_t kRows = 200;  // their lines fill more than a page
  const std::string path = folder.file("rows.h5");
  const std::string command =
      kBinary + " sweep" + kQuick + "--seq " + lengths(kRows / 2) + " --out " + path;
  ASSERT_NO_FATAL_FAILURE(run_and_kill(command, 7));
  const std::vector<Row> before = read_rows(path).rows;
  ASSERT_GE(before.size(), 7u);
  ASSERT_LT(before.size(), kRows);

  const Finished resumed = shell(command);
  EXPECT_EQ(resumed.code, 0) << resumed.text;
  EXPECT_NE(resumed.text.find(std::to_string(before.size()) + " were there already"),
            std::string::npos)
      << resumed.text;
  const std::vector<Row> after = read_rows(path).rows;
  EXPECT_EQ(keys_of(after).size(), kRows);
  ASSERT_GE(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].key(), before[i].key());
    EXPECT_EQ(after[i].time_ms, before[i].time_ms) << "measured again: " << before[i].key();
  }
}

// What stands in for a sweep that is at work holds its lock as one does: through the system.
TEST(SweepCommand, ASecondSweepIntoTheFileIsRefusedWhileOneIsAtWork) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  const std::string link = folder.file("link.h5");
  const std::string sweep = kBinary + " sweep" + kQuick + "--seq 1,2 --out ";
  ASSERT_EQ(shell(sweep + path).code, 0);
  std::filesystem::create_symlink(path, link);
  const std::size_t before = read_rows(path).rows.size();
  {
    const RowsFileLock at_work(path);
    for (const std::string& command :
         {sweep + path, sweep + link, kBinary + " sweep --merge " + path + " --out " + path,
          kBinary + " rows " + path + " --where status=ok --out " + path,
          kBinary + " baseline update --device cpu --file " + path}) {
      const Finished second = shell(command);
      EXPECT_EQ(second.code, 2) << command << "\n" << second.text;
      EXPECT_NE(second.text.find("is being written by process " + std::to_string(getpid())),
                std::string::npos)
          << second.text;
      EXPECT_EQ(second.text.find('\n'), second.text.size() - 1) << "one line:\n" << second.text;
    }
    EXPECT_EQ(read_rows(path).rows.size(), before) << "a file that is locked can be read";
  }
  EXPECT_FALSE(std::filesystem::exists(path + ".lock"));
  EXPECT_EQ(shell(sweep + path + " --retry-failed").code, 0) << "the lock was given back";
}

TEST(SweepCommand, AKilledSweepsLockLocksNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  const std::string command =
      kBinary + " sweep" + kQuick + "--seq " + lengths(100) + " --out " + path;
  ASSERT_NO_FATAL_FAILURE(run_and_kill(command, 2));
  EXPECT_TRUE(std::filesystem::exists(path + ".lock")) << "the sweep held no lock";
  const Finished next = shell(kBinary + " sweep" + kQuick + "--seq 1 --out " + path);
  EXPECT_EQ(next.code, 0) << next.text;
  EXPECT_NE(next.text.find("2 were there already"), std::string::npos) << next.text;
  EXPECT_FALSE(std::filesystem::exists(path + ".lock"));
}

TEST(SweepCommand, ShardsMergeToTheWhole) {
  const TemporaryFolder folder;
  std::string parts;
  std::size_t rows = 0;
  for (int shard = 1; shard <= 3; ++shard) {
    const std::string part = folder.file("part" + std::to_string(shard) + ".h5");
    const Finished made = shell(kBinary + " sweep" + kQuick + "--seq 1,2,3,4,5 --out " + part +
                                " --shard " + std::to_string(shard) + "/3");
    EXPECT_EQ(made.code, 0) << made.text;
    rows += read_rows(part).rows.size();
    parts += " " + part;
  }
  const std::string whole = folder.file("whole.h5");
  const Finished merged = shell(kBinary + " sweep --merge" + parts + " --out " + whole);
  EXPECT_EQ(merged.code, 0) << merged.text;
  EXPECT_EQ(rows, 10u);
  EXPECT_EQ(keys_of(read_rows(whole).rows).size(), 10u);

  const Finished table = shell(kBinary + " table " + whole + " --form heads");
  EXPECT_EQ(table.code, 0) << table.text;
  EXPECT_NE(table.text.find("cpu/recurrent"), std::string::npos) << table.text;
  const Finished csv = shell(kBinary + " table " + whole + " --form rows --format csv");
  EXPECT_NE(csv.text.find("problem,implementation,mode"), std::string::npos) << csv.text;
}

TEST(SweepCommand, MergingKeepsTheRowsOfOut) {
  const TemporaryFolder folder;
  const std::string all = folder.file("all.h5");
  const std::string more = folder.file("more.h5");
  ASSERT_EQ(shell(kBinary + " sweep" + kQuick + "--seq 1,2 --out " + all).code, 0);
  ASSERT_EQ(shell(kBinary + " sweep" + kQuick + "--seq 2,3 --out " + more).code, 0);
  StoredRows later = read_rows(more);
  for (Row& row : later.rows) row.date = "2999-01-01T00:00:00Z";
  write_rows(more, later);
  const Finished merged = shell(kBinary + " sweep --merge " + more + " --json --out " + all);
  EXPECT_EQ(merged.code, 0) << merged.text;
  EXPECT_EQ(merged.text, "{\"file\": \"" + all + "\", \"rows\": 6, \"before\": 4, \"files\": 1}\n");
  const std::vector<Row> rows = read_rows(all).rows;
  EXPECT_EQ(keys_of(rows).size(), 6u);
  const auto latest = std::count_if(rows.begin(), rows.end(),
                                    [](const Row& row) { return row.date.rfind("2999", 0) == 0; });
  EXPECT_EQ(latest, 4) << "of a row in both files the latest stays";
}

TEST(SweepCommand, MergingTakesNoFlagsOfMeasuring) {
  const TemporaryFolder folder;
  const std::string rows = GDN_SOURCE_DIR "/data/fixtures/rows_of_0.1.h5";
  const std::string out = folder.file("out.h5");
  for (const char* flag : {"--heads 1/1", "--device cpu", "--shard 1/2", "--impl cpu/naive",
                           "--op gated_delta", "--retry-failed", "--hot"}) {
    const std::string name = std::string(flag).substr(0, std::string(flag).find(' '));
    const Finished finished =
        shell(kBinary + " sweep --out " + out + " " + flag + " --merge " + rows);
    EXPECT_EQ(finished.code, 2) << flag;
    EXPECT_NE(finished.text.find(name + ": not with --merge"), std::string::npos) << finished.text;
    EXPECT_FALSE(std::filesystem::exists(out)) << flag;
  }
}

// A preset's heads give way to channels that belong to none; heads asked for beside them do not.
TEST(SweepCommand, ChannelsAreAnAxis) {
  const TemporaryFolder folder;
  const std::string out = folder.file("rows.h5");
  const std::string sweep = kBinary + " sweep --impl cpu/direct --device cpu --op causal_conv1d" +
                            " --hot --min-samples 3 --max-samples 3 --min-time 0 --seq 4 --out " +
                            out;
  EXPECT_EQ(shell(sweep + " --preset heads --channels 1,5,130").code, 0);
  std::set<std::string> problems;
  for (const Row& row : read_rows(out).rows) {
    problems.insert(row.problem);
    EXPECT_EQ(row.integer("channels"), Problem::parse(row.problem).channels);
  }
  const std::string rest = ",seq=1x4,dtype=f32";
  EXPECT_EQ(problems, (std::set<std::string>{"causal_conv1d:channels=1" + rest,
                                             "causal_conv1d:channels=130" + rest,
                                             "causal_conv1d:channels=5" + rest}));
  const Finished both = shell(sweep + " --heads 2/4 --channels 5");
  EXPECT_EQ(both.code, 2) << both.text;
  EXPECT_NE(both.text.find("heads=2/4 stands beside channels=5"), std::string::npos) << both.text;
}

TEST(SweepCommand, NothingToDoIsNoSuccess) {
  const TemporaryFolder folder;
  const std::string out = folder.file("rows.h5");
  const std::string sweep = kBinary + " sweep --impl cpu/naive --device cpu --hot --min-samples 3" +
                            " --max-samples 3 --min-time 0 --heads 1/1 --dim 16 --seq 4 --out " +
                            out;
  const Finished none = shell(sweep + " --op causal_conv1d");
  EXPECT_EQ(none.code, 2) << none.text;
  EXPECT_NE(none.text.find("no implementation does any of the problems"), std::string::npos)
      << none.text;
  EXPECT_NE(none.text.find("causal_conv1d"), std::string::npos) << none.text;
  EXPECT_FALSE(std::filesystem::exists(out));
  const std::string of_default = " sweep --impl cpu/naive --device cpu --op causal_conv1d --out ";
  const Finished none_of_default = shell(kBinary + of_default + out);
  EXPECT_EQ(none_of_default.code, 2) << none_of_default.text;
  EXPECT_NE(none_of_default.text.find("causal_conv1d"), std::string::npos) << none_of_default.text;
  EXPECT_FALSE(std::filesystem::exists(out));
  // Neither a shard without problems nor a sweep that was done before is an error.
  EXPECT_EQ(shell(sweep + " --shard 2/2").code, 0);
  EXPECT_EQ(shell(sweep).code, 0);
  EXPECT_EQ(shell(sweep).code, 0);
}

TEST(SweepCommand, AFullDiskIsOneLineAndKeepsTheRows) {
  const TemporaryFolder folder;
  const std::string path = folder.file("rows.h5");
  // The first file (room for 32 rows) fits, the one it grows to does not.
  const std::string sweep = kBinary + " sweep" + kQuick + "--seq " + lengths(30) + " --out " + path;
  const Finished full = shell("bash -c 'ulimit -f 230; exec " + sweep + "'");
  EXPECT_EQ(full.code, 2) << full.text;
  EXPECT_NE(full.text.find("rows file '" + path + "'"), std::string::npos) << full.text;
  EXPECT_NE(full.text.find("stored before are intact"), std::string::npos) << full.text;
  EXPECT_EQ(full.text.find('\n'), full.text.size() - 1) << "one line:\n" << full.text;
  const std::size_t kept = read_rows(path).rows.size();
  EXPECT_GE(kept, 20u);
  EXPECT_EQ(shell(sweep).code, 0);
  EXPECT_EQ(keys_of(read_rows(path).rows).size(), 60u);
}

TEST(SweepCommand, BadInputIsOneLineAndExitTwo) {
  const TemporaryFolder folder;
  const std::string foreign = folder.file("foreign.h5");
  shell("echo text > " + foreign);
  const std::map<std::string, std::string> commands = {
      {"sweep" + kQuick + "--seq 1 --out " + foreign, "not a readable HDF5 file"},
      {"sweep" + kQuick + "--seq 1 --out " + folder.file("no/rows.h5"), "does not exist"},
      {"sweep" + kQuick + "--seq 1 --out /dev/full", "not a regular file"},
      {"sweep" + kQuick + "--seq 1 --shard 3/2 --out " + folder.file("a.h5"), "INDEX/COUNT"},
      {"sweep --preset defalt --out " + folder.file("a.h5"), "did you mean"},
      {"sweep --impl cpu/naif --device cpu --out " + folder.file("a.h5"), "cpu/naive"},
      {"bench --sec 1x5 --device cpu", "--seq"},
      {"bench --benchmark_filtre=x --device cpu", "benchmark_filtre"},
      {"table " + folder.file("none.h5"), "no such file"},
      {"table " + foreign, "not a readable HDF5 file"},
      {"baseline check --device cpu --file " + folder.file("none.h5"), "no such file"}};
  for (const auto& [command, said] : commands) {
    const Finished finished = shell(kBinary + " " + command);
    EXPECT_EQ(finished.code, 2) << command << "\n" << finished.text;
    EXPECT_NE(finished.text.find(said), std::string::npos) << command << "\n" << finished.text;
    EXPECT_EQ(finished.text.find('\n'), finished.text.size() - 1) << command << "\n"
                                                                  << finished.text;
  }
}

// What is stored of seven problems is made far smaller.
TEST(BaselineCommand, FindingsAreToldWorstFirstAndWholeInJson) {
  const TemporaryFolder folder;
  const std::string path = folder.file("baseline.h5");
  StoredRows stored;
  constexpr int kShrunk = 7;
  int shrunk = 0;
  for (Row row : read_rows(GDN_SOURCE_DIR "/data/baselines/cpu.h5").rows) {
    if (row.implementation != "cpu/direct") continue;
    const double error = row.error("conv_output", ErrorMetric::relative_l2);
    if (shrunk < kShrunk && error > 1.1e-3) {  // above what may grow as it likes
      for (RowError& one : row.errors) {
        if (one.output == "conv_output" && one.metric == ErrorMetric::relative_l2)
          one.value *= 1e-3;
      }
      ++shrunk;
    }
    stored.add(row, {});
  }
  ASSERT_EQ(shrunk, kShrunk) << "the baseline has too few errors to try this on";
  write_rows(path, stored);
  const std::string check =
      kBinary + " baseline check --device cpu --impl cpu/direct --file " + path;

  const Finished told = shell(check);
  EXPECT_EQ(told.code, 1) << told.text;
  EXPECT_NE(told.text.find("cpu/direct, causal_conv1d: 7 findings, the worst first\n"),
            std::string::npos)
      << told.text;
  EXPECT_NE(told.text.find("\n  and 2 more; --json lists all\n"), std::string::npos) << told.text;

  const Finished json = shell(check + " --json 2>/dev/null");
  EXPECT_EQ(json.code, 1) << json.text;
  double before = std::numeric_limits<double>::infinity();
  int findings = 0;
  const std::string member = "\"now_over_allowed\": ";
  for (std::size_t at = json.text.find(member); at != std::string::npos;
       at = json.text.find(member, at + 1), ++findings) {
    const double times = std::stod(json.text.substr(at + member.size()));
    EXPECT_GT(times, 1);
    EXPECT_LE(times, before) << "finding " << findings << " is worse than the one before it";
    before = times;
  }
  EXPECT_EQ(findings, kShrunk) << json.text;
  for (const char* said :
       {"\"kind\": \"grown\"", "\"implementation\": \"cpu/direct\"", "\"output\": \"conv_output\"",
        "\"problem\": \"causal_conv1d:", "\"metric\": \"relative_l2\"",
        "\"stored\": ", "\"now\": ", "\"allowed\": "}) {
    EXPECT_NE(json.text.find(said), std::string::npos) << said << " missing in\n" << json.text;
  }
}

// As `cmake --install` lays them out, the program in bin/ and its data in share/gdnbench/, and as
// they lie in the sources.
TEST(BaselineCommand, ItsFilesAreFoundWhereverItIsRunFrom) {
  const TemporaryFolder prefix;
  const TemporaryFolder elsewhere;
  const std::string check = " baseline check --device cpu --impl cpu/direct";
  std::filesystem::create_directories(prefix.path() / "bin");
  std::filesystem::copy_file(kBinary, prefix.path() / "bin" / "gdnbench");
  const std::string there = "cd " + elsewhere.path().string() + " && ";
  const std::string installed = there + prefix.file("bin/gdnbench");

  const Finished without = shell(installed + check);
  EXPECT_EQ(without.code, 2) << without.text;
  EXPECT_NE(without.text.find("data/baselines/cpu.h5': no such file"), std::string::npos)
      << without.text;
  std::filesystem::create_directories(prefix.path() / "share" / "gdnbench" / "data");
  std::filesystem::copy(GDN_SOURCE_DIR "/data/baselines",
                        prefix.path() / "share" / "gdnbench" / "data" / "baselines");
  const Finished with = shell(installed + check);
  EXPECT_EQ(with.code, 0) << with.text;
  EXPECT_NE(with.text.find(prefix.file("share/gdnbench/data/baselines/cpu.h5")), std::string::npos)
      << with.text;
  const Finished built = shell(there + kBinary + check);
  EXPECT_EQ(built.code, 0) << built.text;
}

TEST(BenchCommand, FiltersRepetitionsAndJsonAreGoogleBenchmarks) {
  const Finished finished = shell(
      kBinary + " bench" + kQuick +
      "--seq 5 --benchmark_filter=recurrent --benchmark_repetitions=3 --benchmark_format=json");
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(finished.text.find("cpu/naive/"), std::string::npos) << finished.text;
  for (const char* said : {"\"repetition_index\": 2", "\"tokens/s\"",
                           "\"aggregate_name\": \"median\"", "\"cache\": \"hot\""}) {
    EXPECT_NE(finished.text.find(said), std::string::npos) << said << " missing in\n"
                                                           << finished.text;
  }
  EXPECT_EQ(finished.text.find("built as DEBUG"), std::string::npos)
      << "a warning about a loop that times nothing here: " << finished.text;
}

}  // namespace
}  // namespace gdn
