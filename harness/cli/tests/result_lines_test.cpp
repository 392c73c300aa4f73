// verify --json-lines --out FILE: a run that was cut is gone on with, and a file of something else is refused.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/tests/shell.h"
#include "harness/tests/temporary_folder.h"

namespace gdn {
namespace {

Finished gdnbench(const std::string& arguments) {
  return shell(GDN_BINARY_DIR "/gdnbench " + arguments);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::string kIntoFile =
    "verify --device cpu --impl cpu/naive,cpu/recurrent --heads 1/1 --dim 16 --seq "
    "1x8,1x16,2x5,3x3 --dtype f32 --errors-only --json-lines --out ";

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void write_lines(const std::string& path, const std::vector<std::string>& lines,
                 const std::string& end = "") {
  std::ofstream file(path, std::ios::trunc);
  for (const std::string& line : lines) file << line << "\n";
  file << end;
}

TEST(VerifyIntoAFile, ACutRunIsGoneOnWithAndNothingIsMadeTwice) {
  const TemporaryFolder folder;
  const std::string path = folder.file("results.jsonl");
  ASSERT_EQ(gdnbench(kIntoFile + path).text, "");
  const std::vector<std::string> whole = lines_of(path);
  ASSERT_EQ(whole.size(), 9u);
  EXPECT_EQ(whole[0].rfind("{\"results_ahead\": 8, \"sources\": \"", 0), 0u) << whole[0];
  // Two results and a half. What is there stays as it is, here with a member that no run writes.
  const std::string mark = whole[2].substr(0, whole[2].size() - 1) + ", \"marked\": 1}";
  write_lines(path, {whole[0], whole[1], mark}, whole[3].substr(0, whole[3].size() / 2));
  EXPECT_EQ(gdnbench(kIntoFile + path).code, 0);
  const std::vector<std::string> again = lines_of(path);
  ASSERT_EQ(again.size(), 9u);
  EXPECT_EQ(again[1], whole[1]);
  EXPECT_EQ(again[2], mark);
  EXPECT_EQ(std::set<std::string>(again.begin() + 3, again.end()),
            std::set<std::string>(whole.begin() + 3, whole.end()));
  // Whole, empty, and cut within its head.
  EXPECT_EQ(gdnbench(kIntoFile + path).code, 0);
  EXPECT_EQ(lines_of(path), again);
  for (const std::string& start : {std::string(), whole[0].substr(0, 20), whole[0]}) {
    write_lines(path, {}, start);
    EXPECT_EQ(gdnbench(kIntoFile + path).code, 0) << start;
    EXPECT_EQ(lines_of(path).size(), 9u) << start;
  }
}

TEST(VerifyIntoAFile, WhatFailedBeforeCountsInTheExitCode) {
  const TemporaryFolder folder;
  const std::string path = folder.file("results.jsonl");
  ASSERT_EQ(gdnbench(kIntoFile + path).code, 0);
  std::vector<std::string> lines = lines_of(path);
  const std::string passed = "\"verdict\": \"passed\"";
  std::string failed = lines[4];
  failed.replace(failed.find(passed), passed.size(), "\"verdict\": \"failed\"");
  write_lines(path, {lines[0], lines[1], failed});
  EXPECT_EQ(gdnbench(kIntoFile + path).code, 1);
  const std::string gone =
      lines[4].substr(0, lines[4].size() - 1) + ", \"limits_gone\": [\"a cause\"]}";
  write_lines(path, {lines[0], lines[1], gone});
  EXPECT_EQ(gdnbench(kIntoFile + path).code, 1);
}

TEST(VerifyIntoAFile, AFileOfSomethingElseIsRefusedAndStays) {
  const TemporaryFolder folder;
  const std::string path = folder.file("results.jsonl");
  ASSERT_EQ(gdnbench(kIntoFile + path).code, 0);
  const std::vector<std::string> lines = lines_of(path);
  const auto with_head = [&](const std::string& from, const std::string& to) {
    std::string head = lines[0];
    head.replace(head.find(from), from.size(), to);
    return std::vector<std::string>{head, lines[1]};
  };
  const auto renamed = [&](const std::string& from, const std::string& to) {
    std::string line = lines[1];
    line.replace(line.find(from), from.size(), to);
    return std::vector<std::string>{lines[0], line};
  };
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
      {{"notes"}, "was begun by another run (notes)"},
      {with_head("ahead\": 8", "ahead\": 9"), "was begun by another run"},
      {with_head("\"sources\": \"", "\"sources\": \"0"), "was begun by another run"},
      {with_head("--errors-only", ""), "was begun by another run"},
      {renamed("\"implementation\": \"cpu/", "\"implementation\": \"cpu/not_"),
       "has results that this run does not make"},
      {renamed("\"verdict\": \"passed\"", "\"verdict\": \"well\""), "line 2 is no result"},
      {{lines[0], lines[1], lines[1]}, "twice"}};
  for (const auto& [content, said] : refused) {
    write_lines(path, content);
    const Finished finished = gdnbench(kIntoFile + path);
    EXPECT_EQ(finished.code, 2) << said;
    EXPECT_TRUE(has(finished.text, said)) << finished.text;
    EXPECT_TRUE(has(finished.text, path)) << finished.text;
    EXPECT_EQ(lines_of(path), content) << said;
  }
  const Finished nowhere = gdnbench(kIntoFile + folder.file("none/results.jsonl"));
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_TRUE(has(nowhere.text, "No such file")) << nowhere.text;
  EXPECT_EQ(gdnbench("verify --device cpu --problem gated_delta:seq=8 --out " + path).code, 2);
}

TEST(VerifyIntoAFile, ACaseWithOtherNumbersUnderItsNameIsAnotherRun) {
  const TemporaryFolder folder;
  const std::string path = folder.file("results.jsonl"), file = folder.file("case.h5");
  const std::string gen = "gen --quiet --problem gated_delta:heads=1/1,dim=8,seq=9,dtype=f32,seed=";
  const std::string verify =
      "verify --device cpu --impl cpu/naive --json-lines --case " + file + " --out " + path;
  ASSERT_EQ(gdnbench(gen + "1 --out " + file).code, 0);
  ASSERT_EQ(gdnbench(verify).text, "");
  EXPECT_EQ(gdnbench(verify).text, "");
  std::filesystem::remove(file);
  ASSERT_EQ(gdnbench(gen + "2 --out " + file).code, 0);
  const Finished other = gdnbench(verify);
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(has(other.text, "was begun by another run")) << other.text;
}

TEST(VerifyIntoAFile, OneProcessWritesIt) {
  const TemporaryFolder folder;
  const std::string path = folder.file("results.jsonl");
  const int held = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(held, 0);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  const Finished finished = gdnbench(kIntoFile + path);
  close(held);
  EXPECT_EQ(finished.code, 2);
  EXPECT_TRUE(has(finished.text, "is being written by another process")) << finished.text;
  EXPECT_EQ(lines_of(path).size(), 0u);
}

TEST(VerifyIntoAFile, AFullDiskIsALineAndLosesNoResult) {
  const TemporaryFolder folder;
  const std::string path = folder.file("results.jsonl");
  const Finished full =
      shell("bash -c 'ulimit -f 2; exec " GDN_BINARY_DIR "/gdnbench " + kIntoFile + path + "'");
  EXPECT_EQ(full.code, 2);
  EXPECT_EQ(full.text, "gdnbench: --out '" + path + "': File too large\n");
  const std::vector<std::string> there = lines_of(path);
  ASSERT_GE(there.size(), 3u);
  EXPECT_EQ(gdnbench(kIntoFile + path).code, 0);
  const std::vector<std::string> whole = lines_of(path);
  EXPECT_EQ(whole.size(), 9u);
  EXPECT_TRUE(std::equal(there.begin(), there.end() - 1, whole.begin()));
}

}  // namespace
}  // namespace gdn
