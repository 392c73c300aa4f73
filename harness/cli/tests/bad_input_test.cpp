// Bad usage and bad input through the built program: the exit code, and one line on stderr that
// names the thing and what was expected. Shapes and datasets of malformed files are tested at the
// library, in case_file_test.cpp.
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "harness/files/case_file.h"
#include "harness/files/hdf5_handle.h"
#include "harness/operations/generate_case.h"
#include "harness/rows/row_store.h"
#include "harness/tests/temporary_folder.h"
#include "interface/device.h"

namespace gdn {
namespace {

struct Finished {
  int code = -1;
  std::string errors;
  std::string output;
};

class CommandLine : public ::testing::Test {
 protected:
  Finished run(const std::string& arguments) const {
    const std::string command = "'" GDN_BINARY_DIR "/gdnbench' " + arguments + " >'" +
                                folder_.file("out") + "' 2>'" + folder_.file("err") + "'";
    const int status = std::system(command.c_str());
    const auto text = [&](const char* name) {
      std::ifstream file(folder_.file(name));
      std::stringstream content;
      content << file.rdbuf();
      return content.str();
    };
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text("err"), text("out")};
  }
  // One line on stderr with all the words, and this exit code.
  void expect_error(const std::string& arguments, int code,
                    const std::vector<std::string>& words) const {
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.code, code) << arguments << "\n" << finished.errors;
    EXPECT_EQ(std::count(finished.errors.begin(), finished.errors.end(), '\n'), 1)
        << arguments << "\n"
        << finished.errors;
    for (const std::string& word : words) {
      EXPECT_NE(finished.errors.find(word), std::string::npos)
          << "'" << word << "' not in: " << finished.errors;
    }
  }
  std::string small_case() const {
    const std::string path = folder_.file("case.h5");
    write_case(generate_case(Problem::parse("gated_delta:heads=1/2,dim=8,seq=20,dtype=f32")), path);
    return path;
  }
  TemporaryFolder folder_;
};

TEST_F(CommandLine, UnknownCommandNamesTheNearest) {
  expect_error("verfy", 2, {"verfy", "did you mean 'verify'?"});
}
TEST_F(CommandLine, NothingNearIsNotSuggested) {
  for (const char* arguments : {"frobnicate", "verify --frobnicate", "verify frobnicate", "x"}) {
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.code, 2) << arguments;
    EXPECT_EQ(finished.errors.find("did you mean"), std::string::npos) << finished.errors;
    EXPECT_NE(finished.errors.find("--help"), std::string::npos) << finished.errors;
  }
  expect_error("lsit", 2, {"did you mean 'list'?"});
}
TEST_F(CommandLine, NoCommand) { expect_error("", 2, {"--help"}); }
TEST_F(CommandLine, UnknownFlagNamesTheNearest) {
  expect_error("verify --head 2/4", 2, {"--head", "did you mean '--heads'?"});
  expect_error("run --problem gated_delta:dim=8 --imple cpu/naive --out x.h5", 2, {"--impl"});
}
TEST_F(CommandLine, UnknownImplementationNamesTheNearest) {
  expect_error("verify --device cpu --impl cpu/nave", 2, {"cpu/nave", "did you mean 'cpu/naive'?"});
  expect_error("run --problem gated_delta:dim=8 --impl cpu/recurent --out " + folder_.file("o.h5"),
               2, {"cpu/recurent", "cpu/recurrent"});
}
TEST_F(CommandLine, UnknownDeviceSuiteAndPresetNameTheNearest) {
  expect_error("verify --device cpuu", 2, {"cpuu", "did you mean 'cpu'?"});
  expect_error("verify --device cpu:3 --seq 8", 2, {"cpu:3", "there is only one; expected 'cpu'"});
  expect_error("verify --device cpu --suite quik", 2, {"quik", "did you mean 'quick'?"});
  expect_error("verify --device cpu --preset qwen3-nxt", 2, {"qwen3-nxt", "qwen3-next"});
}
// Wherever they are named, and whatever stands beside them: never a run of nothing.
TEST_F(CommandLine, DrawnProblemsAreAskedForByThemselves) {
  expect_error("verify --fuzz 0", 2, {"--fuzz"});
  expect_error("verify --fuzz many", 2, {"--fuzz"});
  expect_error("verify --fuzz-seed 3", 2, {"--fuzz-seed", "--fuzz"});
  expect_error("verify --fuzz 3 --fuzz-seed -1 --device cpu", 2, {"--fuzz-seed", "-1"});
  for (const char* other : {"--suite quick", "--heads 2/4", "--problem gated_delta:dim=8"})
    expect_error(std::string("verify --fuzz 3 --device cpu ") + other, 2,
                 {"--fuzz: draws its problems"});
  // What a fresh seed was can always be read, beside results that a program reads, too.
  for (const char* form : {"", " --json", " --json-lines", " --quiet"}) {
    const Finished drawn = run(std::string("verify --fuzz 2 --fuzz-seed fresh --errors-only "
                                           "--op gated_rms_norm --device cpu") +
                               form);
    EXPECT_EQ(drawn.code, 0) << form << drawn.errors;
    const std::string& where =
        std::string(form).find("json") != std::string::npos ? drawn.errors : drawn.output;
    EXPECT_NE(where.find("2 problems drawn by --fuzz-seed "), std::string::npos) << form;
  }
  expect_error("verify --fuzz 3 --impl cpu/nave --device cpu", 2, {"did you mean 'cpu/naive'"});
}

TEST_F(CommandLine, MisspeltSuitesAndPresetsAreRefusedBesideOtherOptions) {
  const std::string seq = " --heads 1/1 --dim 8 --seq 3 ";
  for (const std::string& beside : {seq, std::string(" --op causal_conv1d "),
                                    std::string(" --json "), std::string(" --shard 1/2 ")}) {
    expect_error("verify --device cpu --suite quik" + beside, 2, {"did you mean 'quick'?"});
  }
  expect_error("verify --device cpu --suite peers", 2, {"'peers' is unknown; expected quick|full"});
  for (const char* command : {"verify", "bench", "sweep --out s.h5"}) {
    expect_error(std::string(command) + " --device cpu --preset qwen3-nxt" + seq, 2,
                 {"preset 'qwen3-nxt'", "did you mean 'qwen3-next'?"});
  }
  expect_error("table --device cpu --preset troughput", 2, {"did you mean 'throughput'?"});
}
TEST_F(CommandLine, MalformedProblems) {
  expect_error("verify --problem gated_delta:hedas=1/2", 2, {"hedas", "did you mean 'heads'?"});
  expect_error("verify --problem gated_detla:heads=1/2", 2, {"gated_detla", "gated_delta"});
  expect_error("verify --problem gated_delta:heads=2/3", 2, {"heads=2/3", "multiple"});
  expect_error("verify --problem gated_delta:seq=4y8", 2, {"seq", "4y8"});
  expect_error("verify --problem gated_delta:dim", 2, {"dim", "field=value"});
  expect_error("verify --heads 2/3", 2, {"heads=2/3", "multiple"});
  expect_error("verify --gates sometimes", 2, {"gates", "sometimes", "strong"});
  expect_error(
      "gen --problem gated_delta:dim=8,betas=wide,beta=logit --out " + folder_.file("g.h5"), 2,
      {"beta=logit"});
}
// A list that cannot be run to its end is not begun: what a problem string alone shows to be wrong is
// said before the first of the problems is run.
TEST_F(CommandLine, NothingIsRunWhereALaterProblemCannotBe) {
  const std::string good = "--problem gated_delta:heads=1/2,dim=16,seq=5+5 ";
  const std::string fault = "--problem gated_delta:heads=1/2,dim=16,seq=5+5,";
  const std::string verify = "verify --device cpu --impl cpu/naive ";
  for (const auto& [wrong, named] :
       {std::pair{"beta=logit,betas=two", "beta=logit"},
        std::pair{"slots=permuted,pool_rows=1", "pool_rows=1"},
        std::pair{"pool_rows=1", "pool_rows=1"}, std::pair{"gates=0.5", "gates"},
        std::pair{"betas=3", "betas"}, std::pair{"width=3", "width=3"}}) {
    expect_error(verify + good + fault + wrong, 2, {named});
    EXPECT_EQ(run(verify + good + fault + wrong).output, "") << wrong;
  }
  const std::string axes = "--heads 1/2 --dim 16 --seq 5,5+5+5 --slots padding --pool_rows 1";
  const std::string out = folder_.file("rows.h5");
  expect_error(verify + axes, 2, {"pool_rows=1", "2 sequences"});
  expect_error("sweep --device cpu --impl cpu/naive --out " + out + " " + axes, 2, {"pool_rows=1"});
  EXPECT_FALSE(std::filesystem::exists(out));
}
// An empty shell variable is not an axis left out: that would run something else.
TEST_F(CommandLine, EmptyAxis) {
  const std::string problems = " --device cpu --impl cpu/naive --seq 3 --dim 8 ";
  expect_error("verify" + problems + "--heads ''", 2, {"--heads: is empty; expected key/value"});
  expect_error("verify" + problems + "--heads=", 2, {"--heads"});
  expect_error("sweep" + problems + "--output-dtype '' --out " + folder_.file("s.h5"), 2,
               {"--output-dtype: is empty; expected"});
}
TEST_F(CommandLine, TooLargeIsNotCalledUnsupported) {
  const std::string verify = "verify --device cpu --impl cpu/naive --heads 1/1 --dim 16 --seq 9 ";
  expect_error(verify + "--largest 1", 2, {"nothing was verified", "too large", "--largest"});
  const Finished finished = run(verify + "--largest 1");
  EXPECT_EQ(finished.errors.find("no implementation"), std::string::npos) << finished.errors;
}
TEST_F(CommandLine, JsonOfAVerificationIsAListOrNothing) {
  const Finished bad = run("verify --json --problem gated_delta:hedas=1/2");
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(bad.output, "");
  // Results, but none of them a verification.
  const Finished none =
      run("verify --json --device cpu --impl cpu/naive --heads 1/1 --dim 16 --seq 9 --largest 1");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.output.rfind("[\n{", 0), 0u) << none.output;
  EXPECT_NE(none.output.find("}\n]\n"), std::string::npos) << none.output;
}
TEST_F(CommandLine, MissingForeignAndTruncatedCaseFiles) {
  const std::string none = folder_.file("none.h5");
  expect_error("verify --device cpu --case " + none, 2, {none, "no such file"});
  const std::string foreign = folder_.file("foreign.h5");
  std::ofstream(foreign) << "hello";
  expect_error("verify --device cpu --case " + foreign, 2, {foreign, "not an HDF5 file"});
  const std::string cut = small_case();
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) / 2);
  expect_error("run --case " + cut + " --impl cpu/naive --out " + folder_.file("o.h5"), 2,
               {cut, "truncated"});
  EXPECT_FALSE(std::filesystem::exists(folder_.file("o.h5"))) << "nothing is left behind";
}
TEST_F(CommandLine, ProblemThatContradictsItsFile) {
  expect_error("verify --device cpu --problem gated_delta:heads=3/3,case=" + small_case(), 2,
               {"heads=3/3", "heads=1/2"});
}
TEST_F(CommandLine, UnsupportedChunkSaysWhy) {
  expect_error("run --case " + small_case() + " --impl cpu/chunkwise --chunk 7 --out " +
                   folder_.file("o.h5"),
               2, {"cpu/chunkwise", "7"});
}
TEST_F(CommandLine, MoreMemoryThanThereIsIsSaidBeforeAllocating) {
  expect_error("verify --device cpu --heads 64/64 --seq 1000x1000000", 2,
               {"seq=1000x1000000", "needs", "are free"});
  expect_error("run --problem gated_delta:heads=64/64,seq=1000x1000000 --impl cpu/naive --out " +
                   folder_.file("o.h5"),
               2, {"needs", "are free"});
}
TEST_F(CommandLine, OutputsInAFolderThatIsNotThere) {
  expect_error(
      "run --case " + small_case() + " --impl cpu/naive --out " + folder_.file("nowhere/o.h5"), 2,
      {"nowhere/o.h5"});
}
TEST_F(CommandLine, CudaAskedForAndAbsent) {
  for (const Backend& backend : backends()) {
    if (backend.name == "cuda" && backend.status().available) {
      GTEST_SKIP() << "a CUDA device is here";
    }
  }
  expect_error("verify --device cuda", 3, {"cuda"});
}

// Kernels that do not do a variant say so in words and count as unsupported, neither passed nor
// failed.
TEST_F(CommandLine, VariantsThatEmulatedKernelsRefuseAreCountedAsUnsupported) {
  const BackendStatus status = find_backend("cuda-emulated").status();
  if (!status.available) GTEST_SKIP() << status.detail;
  // cuda/recurrent does every variant, cuda/recurrent_staged none.
  const std::string shape = " -v --errors-only --heads 1/2 --dim 64 --seq 20 --dtype f32 ";
  const std::string verify = "verify --device cuda-emulated --impl cuda/recurrent_staged";
  const Finished mixed = run(verify + ",cuda/recurrent" + shape + "--update delta,additive");
  EXPECT_EQ(mixed.code, 0) << mixed.output << mixed.errors;
  for (const char* text :
       {"does not honour update=additive", "3 passed, 0 failed, 0 known limits, 1 not supported"}) {
    EXPECT_NE(mixed.output.find(text), std::string::npos) << text << " not in " << mixed.output;
  }
  // Nothing verified is not a success.
  expect_error(verify + shape + "--steps 2", 2, {"nothing was verified"});
  for (const auto& [variant, reason] :
       {std::pair{"--steps 2", "does not honour steps=2"},
        std::pair{"--decay channel", "does not honour decay=channel"}}) {
    const Finished refused = run(verify + shape + variant);
    EXPECT_NE(refused.output.find(reason), std::string::npos) << refused.output;
  }
}

TEST_F(CommandLine, CompareAndReportOfFilesThatAreNoRows) {
  const std::string none = folder_.file("none.h5");
  expect_error("compare " + none + " " + none, 2, {none, "no such file"});
  expect_error("report " + small_case() + " --out " + folder_.file("r.html"), 2,
               {"case.h5", "gdn-rows"});
  const std::string errors = std::string(GDN_SOURCE_DIR) + "/data/baselines/cpu.h5";
  expect_error("report " + errors + " --where implementation=none --out " + folder_.file("r.html"),
               2, {"cpu.h5", "none of the"});
  expect_error("report " + errors + " --out " + folder_.file("nowhere/r.html"), 2,
               {"nowhere/r.html", "cannot be written"});
}
TEST_F(CommandLine, ReportDoesNotReplaceWhatItReads) {
  const std::string rows = std::string(GDN_SOURCE_DIR) + "/data/fixtures/rows_of_0.1.h5";
  const std::string copy = folder_.file("rows.h5");
  const std::string link = folder_.file("link.h5");
  std::filesystem::copy_file(rows, copy);
  std::filesystem::create_symlink(copy, link);
  for (const std::string& read :
       {copy, rows + " --baseline " + copy, rows + " --history " + copy}) {
    expect_error("report " + read + " --out " + copy, 2, {copy, "not overwritten"});
    expect_error("report " + read + " --out " + link, 2, {link, "not overwritten"});
  }
  EXPECT_EQ(read_rows(copy).rows.size(), 4u);
}
TEST_F(CommandLine, CompareOfAFileWithItselfFindsNothing) {
  const std::string errors = std::string(GDN_SOURCE_DIR) + "/data/baselines/cpu.h5";
  const Finished finished = run("compare " + errors + " " + errors + " --json");
  EXPECT_EQ(finished.code, 0) << finished.output << finished.errors;
  EXPECT_NE(finished.output.find("\"exit_code\": 0"), std::string::npos) << finished.output;
  // The numbers of a reason are named at the head of the table.
  const Finished table = run("compare " + errors + " " + errors);
  EXPECT_NE(table.output.find("reason: change (95 % interval), tolerance"), std::string::npos)
      << table.output.substr(0, 400);
}

TEST_F(CommandLine, RunThenVerifyOutputs) {
  const std::string path = small_case();
  const std::string out = folder_.file("o.h5");
  EXPECT_EQ(run("run --case " + path + " --impl cpu/chunkwise --chunk 16 --out " + out).code, 0);
  EXPECT_EQ(run("verify --case " + path + " --outputs " + out).code, 0);
  // The outputs of another case are wrong for this one: exit 1, not 2.
  const std::string other = folder_.file("other.h5");
  write_case(generate_case(Problem::parse("gated_delta:heads=1/2,dim=8,seq=20,seed=9")), other);
  const Finished wrong = run("verify --case " + other + " --outputs " + out);
  EXPECT_EQ(wrong.code, 1) << wrong.output << wrong.errors;
  EXPECT_NE(wrong.output.find("FAIL"), std::string::npos) << wrong.output;
  // It says how to look closer, and that command works.
  const std::string before = "where: gdnbench ";
  const auto at = wrong.output.find(before);
  ASSERT_NE(at, std::string::npos) << wrong.output;
  const auto begin = at + before.size();
  const std::string explain = wrong.output.substr(begin, wrong.output.find('\n', at) - begin);
  const Finished explained = run(explain);
  EXPECT_EQ(explained.code, 1) << explain << ": " << explained.errors;
  EXPECT_NE(explained.output.find("worst sequence 0, head"), std::string::npos) << explained.output;
}

// Without effect they would let a user believe that the outputs were judged as something else.
TEST_F(CommandLine, JudgingOutputsTakesNoFlagsOfRunning) {
  const std::string path = small_case();
  const std::string out = folder_.file("o.h5");
  ASSERT_EQ(run("run --case " + path + " --impl cpu/naive --out " + out).code, 0);
  const std::string judge = " --case " + path + " --outputs " + out;
  for (const char* flag : {"--heads 1/2", "--dtype bf16", "--state bf16", "--chunk 16",
                           "--output-dtype f32", "--preset qwen3-next"}) {
    const std::string name = std::string(flag).substr(0, std::string(flag).find(' '));
    expect_error("verify" + judge + " " + flag, 2,
                 {name + ": not with --outputs; the case says what was computed"});
  }
  for (const char* flag : {"--impl cpu/naive", "--device cpu", "--shard 1/2", "--jobs 2"}) {
    const std::string name = std::string(flag).substr(0, std::string(flag).find(' '));
    expect_error("verify" + judge + " " + flag, 2, {name + ": not with --outputs; nothing is run"});
  }
  expect_error("verify" + judge + " --suite quick", 2, {"--case: not with --outputs"});
  expect_error("verify --suite quick --outputs " + out, 2,
               {"--outputs " + out, "a folder is expected"});
  expect_error("verify" + judge + " --problem gated_delta:dim=8", 2, {"one case or problem", "2"});
  expect_error("explain" + judge + " --device cpu", 2, {"--device: not with --outputs"});
  EXPECT_EQ(run("verify" + judge + " --whole -v --json").code, 0);
  EXPECT_EQ(run("verify --problem gated_delta:case=" + path + " --outputs " + out).code, 0);
}

TEST_F(CommandLine, GenNeedsAProblemOrASuite) {
  const std::string out = folder_.file("cases");
  expect_error("gen --out " + out, 2, {"--problem or --suite is needed"});
  expect_error("gen --suite quick --problem gated_delta:dim=8 --out " + out, 2,
               {"--problem excludes --suite"});
  expect_error("gen --op gated_delta --out " + out, 2, {"--op requires --suite"});
  expect_error("gen --suite quik --out " + out, 2, {"quik", "did you mean 'quick'?"});
  expect_error("gen --suite quick --out " + small_case(), 2, {"--out", "expected a folder"});
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(CommandLine, ConvertBadUsage) {
  const std::string path = small_case();
  const std::string out = folder_.file("c.h5");
  expect_error("convert --to gml " + path + " " + out, 2, {"gml", "did you mean 'ggml'?"});
  expect_error("convert " + path + " " + out, 2, {"--from and --to", "gdnbench"});
  expect_error("convert --to ggml " + path, 2, {"IN and OUT"});
  expect_error("convert --to fla " + folder_.file("none.h5") + " " + out, 2, {"no such file"});
  expect_error("convert --from ggml --to max " + path + " " + out, 2,
               {"case.h5", "'convention' is missing"});
  expect_error("convert --to fla " + path + " " + path, 2, {"another file"});
  EXPECT_FALSE(std::filesystem::exists(out)) << "nothing is left behind";
}
TEST_F(CommandLine, ConvertedOutputsAreJudgedAsOurs) {
  const std::string path = small_case();
  const std::string out = folder_.file("o.h5");
  ASSERT_EQ(run("run --case " + path + " --impl cpu/recurrent --out " + out).code, 0);
  const std::string theirs = folder_.file("theirs.h5");
  const std::string back = folder_.file("back.h5");
  ASSERT_EQ(run("convert --to ggml --outputs-of " + path + " " + out + " " + theirs).code, 0);
  ASSERT_EQ(run("convert --from ggml --outputs-of " + path + " " + theirs + " " + back).code, 0);
  const Finished judged = run("verify --case " + path + " --outputs " + back);
  EXPECT_EQ(judged.code, 0) << judged.output << judged.errors;
  EXPECT_NE(judged.output.find("cpu/recurrent"), std::string::npos) << judged.output;
  // Read as another convention's they are not accepted.
  expect_error("convert --from mlx-native --outputs-of " + path + " " + theirs + " " + back, 2,
               {"theirs.h5", "'ggml'", "'mlx-native'"});
}
TEST_F(CommandLine, ExplainNeedsACaseAndOutputs) {
  const std::string path = small_case();
  expect_error("explain --impl cpu/naive", 2, {"--case or --problem"});
  expect_error("explain --case " + path, 2, {"--impl or --outputs"});
  expect_error("explain --case " + path + " --impl cpu/nave", 2,
               {"cpu/nave", "did you mean 'cpu/naive'?"});
  expect_error("explain --case " + path + " --outputs " + folder_.file("none.h5"), 2,
               {"none.h5", "no such file"});
  expect_error(
      "explain --case " + path + " --impl cpu/naive --save " + folder_.file("nowhere/t.h5"), 2,
      {"nowhere/t.h5"});
}
TEST_F(CommandLine, ExplainSavesOverNothingButItsOwnTensors) {
  const std::string path = small_case();
  const std::string out = folder_.file("o.h5");
  ASSERT_EQ(run("run --case " + path + " --impl cpu/naive --out " + out).code, 0);
  const std::string link = folder_.file("link.h5");
  const std::string hard = folder_.file("hard.h5");
  std::filesystem::create_symlink(path, link);
  std::filesystem::create_hard_link(out, hard);
  const std::string judge = "explain --case " + path + " --outputs " + out + " --save ";
  for (const std::string& target :
       {path, path + ":/other", out, link, hard,
        std::filesystem::path(path).parent_path().string() + "/./case.h5"}) {
    expect_error(judge + target, 2, {".h5: is read and not overwritten"});
  }
  expect_error("explain --problem gated_delta:case=" + path + " --impl cpu/naive --save " + link, 2,
               {link, "not overwritten"});
  const std::string rows = folder_.file("rows.h5");
  std::filesystem::copy_file(std::string(GDN_SOURCE_DIR) + "/data/fixtures/rows_of_0.1.h5", rows);
  const std::string notes = folder_.file("notes.txt");
  std::ofstream(notes) << "hello";
  expect_error(judge + rows, 2, {rows, "not made by explain --save"});
  expect_error(judge + notes, 2, {notes, "not made by explain --save"});
  EXPECT_EQ(read_rows(rows).rows.size(), 4u);
  EXPECT_EQ(run("verify --case " + path + " --outputs " + out).code, 0) << "both are as they were";
  // Its own, and an empty file, are replaced.
  const std::string tensors = folder_.file("tensors.h5");
  std::ofstream(tensors).close();
  EXPECT_EQ(run(judge + tensors).code, 0);
  const Finished again = run(judge + tensors);
  EXPECT_EQ(again.code, 0) << again.errors;
}
TEST_F(CommandLine, ExplainOfRightOutputsIsASummary) {
  const Finished right = run("explain --case " + small_case() + " --impl cpu/recurrent");
  EXPECT_EQ(right.code, 0) << right.output << right.errors;
  for (const char* text : {"PASS cpu/recurrent", "worst output", "x floor", "of the limit"}) {
    EXPECT_NE(right.output.find(text), std::string::npos) << text << " not in " << right.output;
  }
  EXPECT_EQ(right.output.find("pattern"), std::string::npos) << right.output;
}
TEST_F(CommandLine, ExplainSaysWhereAndExitsOne) {
  const std::string path = small_case();
  const std::string out = folder_.file("o.h5");
  const std::string other = folder_.file("other.h5");
  write_case(generate_case(Problem::parse("gated_delta:heads=1/2,dim=8,seq=20,seed=9")), other);
  ASSERT_EQ(run("run --case " + other + " --impl cpu/naive --out " + out).code, 0);
  const std::string tensors = folder_.file("tensors.h5");
  const std::string command = "explain --case " + path + " --outputs " + out;
  const Finished wrong = run(command + " --save " + tensors);
  EXPECT_EQ(wrong.code, 1) << wrong.errors;
  for (const char* text :
       {"FAIL cpu/naive", "wrong output: ", "wrong final_state: ", "worst sequence 0, head",
        "tokens 0 .. 19", "pattern consistent with: token"}) {
    EXPECT_NE(wrong.output.find(text), std::string::npos) << text << " not in " << wrong.output;
  }
  EXPECT_TRUE(std::filesystem::exists(tensors));
  const Finished json = run(command + " --json");
  EXPECT_EQ(json.code, 1) << json.errors;
  for (const char* word : {"\"verdict\": \"failed\"", "\"patterns\"", "\"limit_ratio\""}) {
    EXPECT_NE(json.output.find(word), std::string::npos) << word << " not in " << json.output;
  }
}

// Products of sizes that no int64 holds: found by arithmetic, before anything of that size is made.
TEST_F(CommandLine, SizesThatWrapAreMoreMemoryThanThereIs) {
  const std::string out = folder_.file("x.h5");
  const std::string padded =
      "gated_delta:heads=1/2,dim=16x16,seq=4x8,dtype=f32,h0=normal,pool_pad=4611686018427387392";
  const std::string large = "gated_delta:heads=65536/65536,dim=4096x4096,seq=1x2147483647";
  for (const auto& [problem, word] :
       {std::pair{padded, "pool_pad=4611686018427387392"}, std::pair{large, "seq=1x2147483647"}}) {
    expect_error("gen --problem " + problem + " --out " + out, 2, {word, "this machine has"});
    expect_error("verify --problem " + problem + " --outputs " + out, 2, {word, "GiB"});
    expect_error("explain --problem " + problem + " --outputs " + out, 2, {word, "GiB"});
    expect_error("run --problem " + problem + " --impl cpu/naive --out " + out, 2, {word, "GiB"});
  }
  EXPECT_FALSE(std::filesystem::exists(out)) << "nothing is left behind";
  const std::string axes =
      " --device cpu --impl cpu/naive --heads 1/2 --dim 16 --seq 8 --h0 normal "
      "--pool_pad 9223372036854775807";
  const Finished bench = run("bench" + axes);
  EXPECT_EQ(bench.code, 1) << bench.output << bench.errors;
  EXPECT_NE((bench.output + bench.errors).find("this machine has"), std::string::npos)
      << bench.output << bench.errors;
  // A sweep counts what does not fit apart from what fails.
  const Finished sweep = run("sweep" + axes + " --quiet --out " + out);
  EXPECT_EQ(sweep.code, 0) << sweep.output << sweep.errors;
  EXPECT_NE(sweep.errors.find("pool_pad=9223372036854775807: needs"), std::string::npos)
      << sweep.errors;
  EXPECT_NE(sweep.output.find("1 out of memory, 0 failed"), std::string::npos) << sweep.output;
}
TEST_F(CommandLine, CaseFileOfAPoolThatNoMemoryHolds) {
  const std::string path = small_case();
  const auto write = [&](const char* name, std::int64_t value) {
    const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    if (H5Aexists(file.id(), name) > 0) H5Adelete(file.id(), name);
    const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
    const Hdf5Handle attribute(
        H5Acreate2(file.id(), name, H5T_NATIVE_INT64, space.id(), H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose);
    H5Awrite(attribute.id(), H5T_NATIVE_INT64, &value);
  };
  const auto expect_refused = [&](const char* attribute) {
    expect_error("verify --device cpu --case " + path, 2, {path, attribute, "this machine has"});
    expect_error("run --case " + path + " --impl cpu/naive --out " + folder_.file("o.h5"), 2,
                 {path, attribute, "this machine has"});
  };
  const std::uint64_t used = 2 * 8 * 8;  // of a row: with it the second padding passes an int64
  for (const int bit : {62, 63}) {
    write("pool_row_padding", static_cast<std::int64_t>((std::uint64_t{1} << bit) - used));
    expect_refused("'pool_row_padding'");
  }
  write("pool_row_padding", 0);
  write("pool_row_padding", 1 << 20);
  write("pool_rows", (std::int64_t{1} << 31) - 1);
  expect_refused("'pool_rows'");
}
TEST_F(CommandLine, CaseFileOfADatasetThatNoMemoryHolds) {
  const std::string path = small_case();
  {
    const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    H5Ldelete(file.id(), "sequence_offsets", H5P_DEFAULT);
    const hsize_t extent = hsize_t{1} << 62;
    const hsize_t chunk = 16;
    const Hdf5Handle space(H5Screate_simple(1, &extent, nullptr), H5Sclose);
    const Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_chunk(properties.id(), 1, &chunk);
    const Hdf5Handle dataset(H5Dcreate2(file.id(), "sequence_offsets", H5T_NATIVE_INT64, space.id(),
                                        H5P_DEFAULT, properties.id(), H5P_DEFAULT),
                             H5Dclose);
    ASSERT_TRUE(dataset.valid());
  }
  expect_error("verify --device cpu --case " + path, 2,
               {path, "'sequence_offsets'", "this machine has"});
}
TEST_F(CommandLine, GroupThatIsThereAlready) {
  const std::string gen =
      "gen --problem gated_delta:dim=8,seq=3 --out " + folder_.file("g.h5") + ":/layer";
  ASSERT_EQ(run(gen).code, 0);
  expect_error(gen, 2, {"g.h5:/layer", "there already"});
}

// ---- bench

TEST_F(CommandLine, BenchSkipsWhatDoesNotFitAndTimesTheRest) {
  const Finished bench =
      run("bench --device cpu --impl cpu/naive --heads 1/2 --dim 16 --seq 8,1x2000000000,16,8+0 "
          "--hot --min-samples 1 --max-samples 1 --min-time 0 --benchmark_format=csv");
  EXPECT_EQ(bench.code, 1) << bench.output << bench.errors;
  for (const char* text : {"seq=1x2000000000", "this machine has", "seq=1x8,", "seq=1x16,"}) {
    EXPECT_NE(bench.output.find(text), std::string::npos) << text << " not in " << bench.output;
  }
  EXPECT_EQ(bench.errors.find("out of host memory"), std::string::npos) << bench.errors;
}
TEST_F(CommandLine, BenchOfNothingIsBadUsage) {
  const std::string bench = "bench --device cpu --impl cpu/naive --dim 16 --seq 8 ";
  expect_error(bench + "--benchmark_filter=nomatch", 2, {"--benchmark_filter", "nomatch"});
  // --op alone is not forgotten: no convolution is cpu/naive's.
  expect_error("bench --device cpu --impl cpu/naive --op causal_conv1d", 2,
               {"no implementation does any"});
  expect_error(bench + "'--benchmark_filter=*['", 2, {"--benchmark_filter"});
  const Finished listed = run(bench + "--benchmark_list_tests");
  EXPECT_EQ(listed.code, 0) << listed.errors;
  EXPECT_NE(listed.output.find("cpu/naive/"), std::string::npos) << listed.output;
}

// ---- numbers on the command line

TEST_F(CommandLine, NumbersMustBeFiniteAndInRange) {
  const std::string out = folder_.file("r.h5");
  const std::string sweep =
      "sweep --device cpu --impl cpu/naive --dim 8 --seq 3 --out " + out + " ";
  const std::string compare = "compare " + out + " " + out + " ";
  expect_error(sweep + "--log-every nan", 2, {"--log-every", "expected", "nan"});
  for (const char* flag : {"--max-time", "--min-time", "--noise"}) {
    for (const char* value : {"nan", "inf"}) {
      expect_error(sweep + flag + " " + value, 2, {flag, "expected", value});
    }
  }
  for (const char* flag : {"--tolerance", "--planted", "--growth"}) {
    for (const char* value : {"nan", "inf", "1000"}) {
      expect_error(compare + flag + " " + value, 2, {flag, "expected", value});
    }
  }
  expect_error("baseline check --device cpu --growth nan", 2, {"--growth", "1 to 100", "nan"});
  expect_error(sweep + "--min-samples 10 --max-samples 5", 2,
               {"--min-samples 10", "--max-samples, 5"});
  expect_error("bench --device cpu --min-samples 10 --max-samples 5", 2, {"--min-samples 10"});
  EXPECT_FALSE(std::filesystem::exists(out)) << "nothing was measured";
}
TEST_F(CommandLine, BoundsAreNamedInFewWords) {
  const std::string path = small_case();
  for (const std::string& arguments :
       {"run --impl cpu/naive --case " + path + " --out o.h5 --chunk 0",
        std::string("bench --max-time inf"), std::string("bench --max-samples 0"),
        std::string("sweep --out o.h5 --noise -1")}) {
    const Finished finished = run(arguments);
    EXPECT_EQ(finished.code, 2) << arguments;
    EXPECT_NE(finished.errors.find("expected "), std::string::npos) << finished.errors;
    EXPECT_LT(finished.errors.size(), 100u) << finished.errors;
  }
}

// ---- rows files

// A rows file of one row, one of whose datasets is replaced by one that declares `extent` entries
// and stores none.
void declare_entries(const std::string& path, const char* name, hsize_t extent) {
  write_rows(path, StoredRows{{Row{}}, {}});
  const Hdf5Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
  const Hdf5Handle old(H5Dopen2(file.id(), name, H5P_DEFAULT), H5Dclose);
  const Hdf5Handle type(H5Dget_type(old.id()), H5Tclose);
  H5Ldelete(file.id(), name, H5P_DEFAULT);
  const hsize_t chunk = 16;
  const Hdf5Handle space(H5Screate_simple(1, &extent, nullptr), H5Sclose);
  const Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(properties.id(), 1, &chunk);
  const Hdf5Handle dataset(
      H5Dcreate2(file.id(), name, type.id(), space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT),
      H5Dclose);
  ASSERT_TRUE(dataset.valid());
}

TEST_F(CommandLine, RowsFilesThatDeclareMoreThanMemoryHolds) {
  const std::string path = folder_.file("declared.h5");
  for (const auto& [name, bits] : {std::pair{"samples", 62}, {"samples", 40}, {"rows", 40}}) {
    declare_entries(path, name, hsize_t{1} << bits);
    expect_error("rows " + path, 2, {path, std::string("/") + name, "this machine has"});
    expect_error("compare " + path + " " + path, 2, {path, name});
  }
}
TEST_F(CommandLine, RowsWhoseSamplesAreNotThere) {
  const std::string path = folder_.file("rows.h5");
  for (const auto& [first, count] :
       {std::pair{std::numeric_limits<std::int64_t>::max(), std::int64_t{5}},
        {std::int64_t{5}, std::numeric_limits<std::int64_t>::max()},
        {std::int64_t{0}, std::int64_t{2}},
        {std::int64_t{-1}, std::int64_t{1}}}) {
    Row row;
    row.first_sample = first;
    row.sample_count = count;
    write_rows(path, StoredRows{{row}, {{1.0, 1000.0}}});
    expect_error("compare " + path + " " + path, 2, {path, "/samples", std::to_string(count)});
  }
}
TEST_F(CommandLine, RowsFilesOfNamesTooLong) {
  const std::string sweep = "sweep --device cpu --impl cpu/naive --dim 8 --seq 3 --quiet --out ";
  for (const int length : {300, 250}) {  // the second is too long only for what is renamed to it
    const std::string path =
        folder_.file(std::string(static_cast<std::size_t>(length), 'x') + ".h5");
    expect_error(sweep + path, 2, {path, "too long"});
  }
}
TEST_F(CommandLine, PairedProgramsThatLeaveNoRowsAreNamed) {
  expect_error("compare /bin/false /bin/true --paired 2 --quiet", 2,
               {"/bin/false", "exit code 1", "gdnbench binary"});
}

TEST_F(CommandLine, EveryCommandHasHelpWithAnExample) {
  for (const char* command : {"list", "info", "gen", "run", "verify", "bench", "sweep", "table",
                              "report", "compare", "baseline", "convert", "explain"}) {
    const Finished help = run(std::string(command) + " --help");
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_NE(help.output.find("Example:\n  gdnbench " + std::string(command)), std::string::npos)
        << help.output;
  }
}

}  // namespace
}  // namespace gdn
