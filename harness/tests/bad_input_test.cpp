// Bad usage and bad input through the built program: the exit code, and one line on stderr that
// names the thing and what was expected. Shapes and datasets of malformed files are tested at the
// library, in case_file_test.cpp.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "harness/case_file.h"
#include "harness/inputs.h"
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
  expect_error("verify --device cpu --suite quik", 2, {"quik", "did you mean 'quick'?"});
  expect_error("verify --device cpu --preset qwen3-nxt", 2, {"qwen3-nxt", "qwen3-next"});
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
  for (const BackendStatus& status : backend_statuses()) {
    if (status.backend == "cuda" && status.available) GTEST_SKIP() << "a CUDA device is here";
  }
  expect_error("verify --device cuda", 3, {"cuda"});
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
TEST_F(CommandLine, CompareOfAFileWithItselfFindsNothing) {
  const std::string errors = std::string(GDN_SOURCE_DIR) + "/data/baselines/cpu.h5";
  const Finished finished = run("compare " + errors + " " + errors + " --json");
  EXPECT_EQ(finished.code, 0) << finished.output << finished.errors;
  EXPECT_NE(finished.output.find("\"exit_code\": 0"), std::string::npos) << finished.output;
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
}

TEST_F(CommandLine, EveryCommandHasHelpWithAnExample) {
  for (const char* command : {"list", "info", "gen", "run", "verify", "bench", "sweep", "table",
                              "report", "compare", "baseline", "convert"}) {
    const Finished help = run(std::string(command) + " --help");
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_NE(help.output.find("Example:\n  gdnbench " + std::string(command)), std::string::npos)
        << help.output;
  }
}

}  // namespace
}  // namespace gdn
