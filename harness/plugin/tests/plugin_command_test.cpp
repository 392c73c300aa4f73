// Plug-ins through the built program: a right one passes every check; one that is wrong, crashes, hangs,
// throws, writes out of bounds or is none at all is a result with a reason, and what comes behind it runs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/rows/row_store.h"
#include "harness/tests/shell.h"
#include "harness/tests/temporary_folder.h"
#include "plugin/file_hash.h"

namespace gdn {
namespace {

const std::string kProblem = "gated_delta:heads=1/2,dim=8,seq=70+3,dtype=f32,gates=mid";

Finished gdnbench(const std::string& arguments) {
  return shell("'" GDN_BINARY_DIR "/gdnbench' " + arguments);
}

std::string plugin(const std::string& name) {
  return std::string(GDN_PLUGIN_FOLDER) + "/plugin_" + name + ".so";
}

// With an implementation of this build behind it, which is to be verified whatever the plug-in does.
Finished verify(const std::string& name, const std::string& more = "") {
  return gdnbench("verify --device cpu --problem '" + kProblem +
                  "' --impl cpu/of_the_tests,cpu/naive" + " --plugin " + plugin(name) + " " + more);
}

::testing::AssertionResult says(const Finished& finished, const std::string& words) {
  if (finished.text.find(words) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << words << "' not in:\n" << finished.text;
}

// Failed with these words, and the other one passed.
void expect_failed(const Finished& finished, const std::string& words) {
  EXPECT_EQ(finished.code, 1) << finished.text;
  EXPECT_TRUE(says(finished, "FAIL cpu/of_the_tests"));
  EXPECT_TRUE(says(finished, words));
  EXPECT_TRUE(says(finished, "PASS cpu/naive"));
  EXPECT_TRUE(says(finished, "1 passed, 1 failed"));
}

TEST(Plugin, InCPassesEveryCheckOfASuite) {
  const Finished finished =
      gdnbench("verify --device cpu --suite quick --plugin " + plugin("recurrence"));
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_TRUE(says(finished, "PASS cpu/recurrence_in_c"));
  EXPECT_TRUE(says(finished, " 0 failed"));
}

// Results of verify in a file are of the plug-in as it was.
TEST(Plugin, ThatWasBuiltAnewIsVerifiedAnew) {
  const TemporaryFolder folder;
  const std::string copy = folder.file("plugin.so"), results = folder.file("results.jsonl");
  const std::string verify = "verify --device cpu --problem '" + kProblem + "' --plugin " + copy +
                             " --json-lines --out " + results;
  std::filesystem::copy_file(plugin("recurrence"), copy);
  ASSERT_EQ(gdnbench(verify).text, "");
  EXPECT_EQ(gdnbench(verify).text, "");
  std::ofstream(copy, std::ios::app) << "other bytes, which nothing loads";
  const Finished other = gdnbench(verify);
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(says(other, "was begun by another run"));
}

TEST(Plugin, IsNotVerifiedWhereOthersAreNamed) {
  const Finished finished = gdnbench("verify --device cpu --problem '" + kProblem +
                                     "' --impl cpu/naive --plugin " + plugin("recurrence"));
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_TRUE(says(finished, "1 passed"));
  EXPECT_FALSE(says(finished, "cpu/recurrence_in_c"));
}

TEST(Plugin, IsJudgedByTheChecksOfEveryImplementation) {
  const Finished finished = gdnbench(
      "verify -v --device cpu --problem "
      "gated_delta:heads=2/4,dim=8x16,seq=70+3+1,dtype=f32,h0=normal --plugin " +
      plugin("recurrence"));
  EXPECT_EQ(finished.code, 0) << finished.text;
  for (const char* check : {"errors", "repeat", "alone", "duplicates", "continuation", "strided"}) {
    EXPECT_TRUE(says(finished, check));
  }
}

TEST(Plugin, IsListedWithItsSummary) {
  const Finished finished = gdnbench("list --plugin " + plugin("recurrence"));
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_TRUE(says(finished, "cpu/recurrence_in_c"));
  EXPECT_TRUE(says(finished, "the equations as plain loops in C"));
  EXPECT_FALSE(says(finished, "cpu/naive"));
}

TEST(Plugin, RightPassesBesideAnImplementationOfTheBuild) {
  const Finished finished = verify("none");
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_TRUE(says(finished, "PASS cpu/of_the_tests"));
  EXPECT_TRUE(says(finished, "2 passed, 0 failed"));
}

TEST(Plugin, ThatDecaysAfterTheUpdateFails) {
  expect_failed(verify("late_decay"), "the rounding floor), limit ");
}
TEST(Plugin, ThatWritesOutOfBoundsFails) {
  expect_failed(verify("out_of_bounds"), "write out of bounds: 1 bytes past the end of 'output'");
}
TEST(Plugin, ThatCrashesIsAFailureThatNamesTheCallAndTheSignal) {
  expect_failed(verify("crashes"), "its process ended in enqueue(): signal 6");
}
TEST(Plugin, ThatEndsItsProcessIsAFailure) {
  expect_failed(verify("exits"), "its process ended in enqueue(): exit code 7");
}
TEST(Plugin, ThatHangsIsAFailureAtTheLimit) {
  expect_failed(verify("hangs", "--plugin-limit 0.5"), "enqueue() took longer than 0.5 s");
}
// Or a suite of a thousand problems would take a thousand limits.
TEST(Plugin, ThatHungThreeTimesIsAskedNothingMore) {
  std::string problems;
  for (const char* seq : {"3", "4", "5", "6", "7"}) {
    problems += " --problem gated_delta:heads=1/1,dim=8,dtype=f32,seq=" + std::string(seq);
  }
  const Finished finished =
      gdnbench("verify --device cpu --plugin-limit 0.2 --plugin " + plugin("hangs") + problems);
  EXPECT_EQ(finished.code, 1) << finished.text;
  EXPECT_TRUE(says(finished, "not run: 3 calls before it took longer than the limit"));
  EXPECT_TRUE(says(finished, "0 passed, 5 failed"));
}
// Problems of the plug-in `spoiled`: two that spoil its process, each before one that it does right in another.
const char* const kSpoilingInTurn =
    " --problem gated_delta:heads=1/1,dim=5,dtype=f32,seq=9"
    " --problem gated_delta:heads=1/1,dim=8,dtype=f32,seq=9"
    " --problem gated_delta:heads=1/1,dim=6,dtype=f32,seq=9"
    " --problem gated_delta:heads=1/1,dim=8,dtype=f32,seq=7 ";

TEST(Plugin, ThatFailedIsAskedTheNextInAProcessOfItsOwn) {
  const Finished finished =
      gdnbench("verify --device cpu --plugin " + plugin("spoiled") + kSpoilingInTurn);
  EXPECT_EQ(finished.code, 1) << finished.text;
  EXPECT_TRUE(says(finished, "the device is lost"));
  EXPECT_TRUE(says(finished, "2 passed, 2 failed"));
}
TEST(Plugin, ThatThrowsFailsWithWhatItThrew) {
  expect_failed(verify("throws"), "enqueue() threw: thrown by a plug-in");
}
TEST(Plugin, ThatReturnsAnErrorFailsWithItsMessageInOneLine) {
  expect_failed(verify("fails"),
                "enqueue() returned GDNBENCH_DEVICE_FAILURE: no tile fits this card");
}
TEST(Plugin, ThatCrashesWhereItIsAskedFails) {
  expect_failed(verify("supports_crashes"), "its process ended in supports(): signal 6");
}

// What cannot be loaded is a result too, whatever the names asked for.
void expect_not_loaded(const std::string& name, const std::string& words) {
  const std::string file = "plugin_" + name + ".so";
  const Finished finished = gdnbench("verify --device cpu --problem '" + kProblem +
                                     "' --impl cpu/naive --plugin " + plugin(name));
  EXPECT_EQ(finished.code, 1) << finished.text;
  EXPECT_TRUE(says(finished, "FAIL plugin/" + file));
  EXPECT_TRUE(says(finished, words));
  EXPECT_TRUE(says(finished, "1 passed, 1 failed"));
  const Finished listed = gdnbench("list --plugin " + plugin(name));
  EXPECT_EQ(listed.code, 1) << listed.text;
  EXPECT_TRUE(says(listed, words));
}

TEST(Plugin, OfAnotherVersionIsNamedAsSuch) {
  expect_not_loaded("other_version", "has the entry gdnbench_plugin_v2");
}
TEST(Plugin, ThatLiesAboutItsVersionIsNotLoaded) {
  expect_not_loaded("lies_about_version", "its table says version 2, expected 1");
}
TEST(Plugin, ThatLiesAboutTheSizeOfItsTableIsNotLoaded) {
  expect_not_loaded("lies_about_size", "its table says that an implementation is ");
}
TEST(Plugin, WithoutAnEntryIsNotLoaded) {
  expect_not_loaded("no_entry", "has no entry, expected the function gdnbench_plugin_v1()");
}
TEST(Plugin, WithoutATableIsNotLoaded) { expect_not_loaded("no_table", "its entry returned NULL"); }
TEST(Plugin, ThatCrashesAsItIsLoadedIsNotLoaded) {
  expect_not_loaded("crashes_at_load", "its process ended in loading: signal 6");
}
TEST(Plugin, ThatHonoursAFieldThatIsNoneIsNotLoaded) { expect_not_loaded("unknown_field", "nrom"); }

TEST(Plugin, WithTheNameOfAnotherImplementationIsRefused) {
  const Finished finished = gdnbench("list --plugin " + plugin("taken_name"));
  EXPECT_EQ(finished.code, 2) << finished.text;
  EXPECT_TRUE(says(finished, "cpu/naive is the name of another implementation"));
}

TEST(Plugin, ThatIsNoFileOrNoLibraryIsRefusedByName) {
  const Finished absent = gdnbench("verify --plugin ./absent.so");
  EXPECT_EQ(absent.code, 2) << absent.text;
  EXPECT_TRUE(says(absent, "plug-in './absent.so': No such file or directory"));
  const TemporaryFolder folder;
  std::ofstream(folder.file("text.so")) << "no library";
  const Finished text = gdnbench("list --plugin " + folder.file("text.so"));
  EXPECT_EQ(text.code, 1) << text.text;
  EXPECT_TRUE(says(text, "text.so': cannot be loaded"));
}

TEST(Plugin, OfACardIsNotRunByWhatStandsForACard) {
  const Finished finished =
      gdnbench("verify --device cuda-emulated --plugin " + plugin("of_a_card"));
  EXPECT_NE(finished.code, 0) << finished.text;
  EXPECT_NE(finished.code, 1) << "nothing was run:\n" << finished.text;
  const Finished listed = gdnbench("list --plugin " + plugin("of_a_card"));
  EXPECT_EQ(listed.code, 0) << listed.text;
  EXPECT_TRUE(says(listed, "cuda/of_the_tests"));
}

TEST(Plugin, MayPrintWithoutSpoilingWhatIsReadByPrograms) {
  const Finished finished =
      shell("'" GDN_BINARY_DIR "/gdnbench' verify --json --device cpu --problem '" + kProblem +
            "' --plugin " + plugin("none") + " 2>/dev/null");
  EXPECT_EQ(finished.code, 0) << finished.text;
  EXPECT_EQ(finished.text.rfind("[\n", 0), 0u) << finished.text;
  EXPECT_FALSE(says(finished, "printed by a plug-in"));
}

// As verify says it to whoever looks for the fault.
TEST(Plugin, IsExplainedByTheCommandThatVerifyNames) {
  const Finished judged = verify("late_decay");
  const std::string begin = "where: gdnbench ";
  const auto from = judged.text.find(begin);
  ASSERT_NE(from, std::string::npos) << judged.text;
  const auto to = judged.text.find('\n', from);
  const Finished explained =
      gdnbench(judged.text.substr(from + begin.size(), to - from - begin.size()));
  EXPECT_EQ(explained.code, 1) << explained.text;
  EXPECT_TRUE(says(explained, "decay"));
}

// ---- rows

Finished sweep(const std::string& name, const std::string& file, const std::string& more = "") {
  return gdnbench("sweep --quiet --device cpu --problem '" + kProblem +
                  "' --max-samples 3 --plugin " + plugin(name) + " --out " + file + " " + more);
}

TEST(PluginRow, HasTheHashOfTheFileAndATime) {
  const TemporaryFolder folder;
  const Finished finished = sweep("none", folder.file("rows.h5"));
  ASSERT_EQ(finished.code, 0) << finished.text;
  const StoredRows stored = read_rows(folder.file("rows.h5"));
  ASSERT_EQ(stored.rows.size(), 1u);
  EXPECT_EQ(stored.rows[0].implementation, "cpu/of_the_tests");
  EXPECT_EQ(stored.rows[0].plugin_hash, file_hash(plugin("none")));
  EXPECT_EQ(stored.rows[0].verified_after, 1);
  EXPECT_GT(stored.rows[0].time_ms, 0);
  EXPECT_EQ(stored.rows[0].sample_count, 3);
}

TEST(PluginRow, OfACrashIsStoredAndTheSweepGoesOn) {
  const TemporaryFolder folder;
  const Finished finished =
      sweep("crashes", folder.file("rows.h5"), "--no-time --impl cpu/of_the_tests,cpu/naive");
  EXPECT_EQ(finished.code, 1) << finished.text;
  const StoredRows stored = read_rows(folder.file("rows.h5"));
  ASSERT_EQ(stored.rows.size(), 2u);
  EXPECT_EQ(stored.rows[0].status, row_status::kFailed);
  EXPECT_NE(stored.rows[0].reason.find("signal 6"), std::string::npos) << stored.rows[0].reason;
  EXPECT_EQ(stored.rows[0].plugin_hash, file_hash(plugin("crashes")));
  EXPECT_EQ(stored.rows[1].status, row_status::kOk);
  EXPECT_EQ(stored.rows[1].plugin_hash, "");
}

TEST(PluginRow, BehindAFailureIsMadeInAProcessOfItsOwn) {
  const TemporaryFolder folder;
  const std::string file = folder.file("rows.h5");
  const Finished finished = gdnbench("sweep --quiet --device cpu --max-samples 3 --plugin " +
                                     plugin("spoiled") + kSpoilingInTurn + "--out " + file);
  EXPECT_EQ(finished.code, 1) << finished.text;
  const StoredRows stored = read_rows(file);
  ASSERT_EQ(stored.rows.size(), 4u);
  EXPECT_EQ(stored.rows[0].status, row_status::kDeviceFailure) << stored.rows[0].reason;
  EXPECT_EQ(stored.rows[1].status, row_status::kOk) << stored.rows[1].reason;
  EXPECT_EQ(stored.rows[2].status, row_status::kFailed) << stored.rows[2].reason;
  EXPECT_EQ(stored.rows[3].status, row_status::kOk) << stored.rows[3].reason;
}

TEST(PluginRow, OfAFileThatCouldNotBeLoadedSaysWhy) {
  const TemporaryFolder folder;
  EXPECT_EQ(sweep("lies_about_version", folder.file("rows.h5"), "--no-time").code, 1);
  const StoredRows stored = read_rows(folder.file("rows.h5"));
  ASSERT_EQ(stored.rows.size(), 1u);
  EXPECT_EQ(stored.rows[0].implementation, "plugin/plugin_lies_about_version.so");
  EXPECT_EQ(stored.rows[0].status, row_status::kFailed);
  EXPECT_NE(stored.rows[0].reason.find("version 2"), std::string::npos) << stored.rows[0].reason;
}

// The same name in another file is not what the rows file has.
TEST(PluginRow, IsMadeAgainWhereTheFileHasChanged) {
  const TemporaryFolder folder;
  EXPECT_EQ(sweep("none", folder.file("rows.h5"), "--no-time").code, 0);
  EXPECT_EQ(sweep("none", folder.file("rows.h5"), "--no-time").code, 0);
  EXPECT_EQ(read_rows(folder.file("rows.h5")).rows.size(), 1u);
  EXPECT_EQ(sweep("late_decay", folder.file("rows.h5"), "--no-time").code, 1);
  const StoredRows stored = read_rows(folder.file("rows.h5"));
  ASSERT_EQ(stored.rows.size(), 2u);
  EXPECT_NE(stored.rows[0].plugin_hash, stored.rows[1].plugin_hash);
}

TEST(PluginBench, TimesItAndSaysWhatFailed) {
  const std::string how =
      "bench --device cpu --max-samples 3 --problem '" + kProblem + "' --plugin ";
  const Finished right = gdnbench(how + plugin("none"));
  EXPECT_EQ(right.code, 0) << right.text;
  EXPECT_TRUE(says(right, "cpu/of_the_tests/" + kProblem.substr(0, 20)));
  EXPECT_TRUE(says(right, "samples=3"));
  const Finished crashed = gdnbench(how + plugin("crashes"));
  EXPECT_EQ(crashed.code, 1) << crashed.text;
  EXPECT_TRUE(says(crashed, "its process ended in enqueue(): signal 6"));
}

TEST(PluginCompare, RunsTwoFilesInTurn) {
  const Finished finished = gdnbench(
      "compare --quiet --paired 2 --plugin " + plugin("none") + " " + plugin("late_decay") +
      " --sweep \"--device cpu --no-time --problem " + kProblem + "\"");
  EXPECT_EQ(finished.code, 1) << finished.text;
  EXPECT_TRUE(says(finished, "cpu/of_the_tests"));
}

}  // namespace
}  // namespace gdn
