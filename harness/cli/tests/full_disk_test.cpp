// The built binary on a disk that is full, at many places of what it writes: one line that names the
// file and the reason, exit code 2, the earlier file as it was, nothing partial. A limit on the size
// of files (ulimit -f, in KiB) meets the same error path as a full disk, and any user has one.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "harness/tests/shell.h"
#include "harness/tests/temporary_folder.h"

namespace gdn {
namespace {

const std::string kBinary = GDN_BINARY_DIR "/gdnbench";
const std::string kProblem = "gated_delta:heads=1/1,dim=64,seq=1x100,dtype=f32";  // 84 KiB
const std::string kRows = GDN_SOURCE_DIR "/data/fixtures/rows_of_0.1.h5";

Finished gdnbench(const std::string& arguments) { return shell(kBinary + " " + arguments); }

Finished limited(int kib, const std::string& arguments) {
  return shell("bash -c 'ulimit -f " + std::to_string(kib) + "; exec " + kBinary + " " + arguments +
               "'");
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> names_in(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void expect_refused(const Finished& finished, const std::string& file, const std::string& reason) {
  EXPECT_EQ(finished.code, 2) << finished.text;
  EXPECT_NE(finished.text.find(file), std::string::npos) << finished.text;
  EXPECT_NE(finished.text.find(reason + "\n"), std::string::npos) << finished.text;
  EXPECT_EQ(finished.text.find(".partial"), std::string::npos) << finished.text;
  EXPECT_EQ(finished.text.find('\n'), finished.text.size() - 1) << "one line:\n" << finished.text;
}

// Runs the command, which writes `file`, with limits up to what is enough, and then with enough.
// Whatever is in the folder stays as it is until the command succeeds.
void expect_all_or_nothing(const TemporaryFolder& folder, const std::string& command,
                           const std::string& file, const std::vector<int>& too_small_kib) {
  const std::vector<std::string> names = names_in(folder);
  const std::string earlier = content_of(file);
  for (const int kib : too_small_kib) {
    SCOPED_TRACE(command + " with files of " + std::to_string(kib) + " KiB");
    expect_refused(limited(kib, command), file, "File too large");
    EXPECT_TRUE(content_of(file) == earlier);
    EXPECT_EQ(names_in(folder), names);
  }
  EXPECT_EQ(gdnbench(command).code, 0);
  EXPECT_FALSE(content_of(file) == earlier);
}

TEST(FullDisk, GenWritesACaseWhollyOrNotAtAll) {
  const TemporaryFolder folder;
  const std::string file = folder.file("case.h5");
  expect_all_or_nothing(folder, "gen --problem " + kProblem + " --out " + file, file,
                        {1, 2, 4, 20, 50, 76});
}

TEST(FullDisk, GenAddsAGroupWhollyOrNotAtAll) {
  const TemporaryFolder folder;
  const std::string file = folder.file("case.h5");
  const std::string gen = "gen --problem " + kProblem + " --out " + file;
  ASSERT_EQ(gdnbench(gen + ":/first").code, 0);
  // From less than is there already to a little less than both take.
  expect_all_or_nothing(folder, gen + ":/second", file, {1, 50, 85, 110, 150});
  EXPECT_EQ(gdnbench("run --impl cpu/naive --case " + file + ":/first --out " + file + "2").code,
            0);
}

TEST(FullDisk, RunKeepsTheOutputsThatWereThere) {
  const TemporaryFolder folder;
  const std::string file = folder.file("outputs.h5");
  const auto run = [&](const std::string& implementation) {
    return "run --problem " + kProblem + " --impl " + implementation + " --out " + file;
  };
  ASSERT_EQ(gdnbench(run("cpu/naive")).code, 0);
  expect_all_or_nothing(folder, run("cpu/chunkwise"), file, {1, 10, 30, 40});
}

TEST(FullDisk, ConvertWritesWhollyOrNotAtAll) {
  const TemporaryFolder folder;
  const std::string ours = folder.file("ours.h5");
  const std::string theirs = folder.file("theirs.h5");
  ASSERT_EQ(gdnbench("gen --problem " + kProblem + " --out " + ours).code, 0);
  expect_all_or_nothing(folder, "convert --to fla " + ours + " " + theirs, theirs, {1, 20, 60, 76});
}

TEST(FullDisk, ExplainKeepsTheTensorsThatWereThere) {
  const TemporaryFolder folder;
  const std::string file = folder.file("tensors.h5");
  const std::string explain = "explain --problem " + kProblem + " --save " + file + " --impl cpu/";
  ASSERT_EQ(gdnbench(explain + "naive").code, 0);
  expect_all_or_nothing(folder, explain + "chunkwise", file, {1, 40, 100});
}

TEST(FullDisk, ReportKeepsThePageThatWasThere) {
  const TemporaryFolder folder;
  const std::string file = folder.file("page.html");
  std::ofstream(file) << "an earlier page";
  expect_all_or_nothing(folder, "report " + kRows + " --out " + file, file, {1, 20});
}

TEST(FullDisk, RowsKeepTheFileThatWasThere) {
  const TemporaryFolder folder;
  const std::string file = folder.file("rows.h5");
  std::ofstream(file) << "an earlier file";
  const std::string rows = "rows " + kRows + " --out " + file;
  const std::string earlier = content_of(file);
  const Finished full = limited(1, rows);
  EXPECT_EQ(full.code, 2) << full.text;
  EXPECT_NE(full.text.find("File too large"), std::string::npos) << full.text;
  EXPECT_TRUE(content_of(file) == earlier);
  EXPECT_EQ(names_in(folder).size(), 1u);
}

TEST(FullDisk, TheReasonIsTheSystems) {
  expect_refused(gdnbench("report " + kRows + " --out /dev/full"), "/dev/full",
                 "No space left on device");
}

// Short output reaches a file when the program ends, long output before.
TEST(FullDisk, WhatIsPrintedIsNotLostSilently) {
  for (const char* command : {"gen --help", "list", "rows"}) {
    const std::string arguments =
        command == std::string("rows") ? "rows " + kRows : std::string(command);
    const Finished finished = shell("(" + kBinary + " " + arguments + " 2>&1 >/dev/full)");
    expect_refused(finished, "standard output", "No space left on device");
  }
}

}  // namespace
}  // namespace gdn
