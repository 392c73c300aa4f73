// A suite as files in a folder: written whole, gone on with, judged file by file; and what a pass on
// files does not exclude.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "harness/tests/shell.h"
#include "harness/tests/temporary_folder.h"

namespace gdn {
namespace {

namespace fs = std::filesystem;

class SuiteFolder : public ::testing::Test {
 protected:
  static Finished gdnbench(const std::string& arguments) {
    return shell(std::string(GDN_BINARY_DIR "/gdnbench ") + arguments);
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  static std::vector<fs::path> files_of(const std::string& folder) {
    std::vector<fs::path> files(fs::directory_iterator(folder), {});
    std::sort(files.begin(), files.end());
    return files;
  }
  // Of this operation, which has few problems, by the implementation.
  void make_outputs(const std::string& implementation) {
    ASSERT_EQ(gdnbench("gen" + suite_ + " --out " + cases_).code, 0);
    fs::create_directory(mine_);
    for (const fs::path& file : files_of(cases_)) {
      const fs::path out = fs::path(mine_) / file.filename();
      const Finished made = gdnbench("run --case '" + file.string() + "' --impl " + implementation +
                                     " --out '" + out.string() + "'");
      ASSERT_EQ(made.code, 0) << made.text;
    }
  }

  TemporaryFolder folder_;
  const std::string suite_ = " --suite quick --op gated_rms_norm";
  const std::string cases_ = folder_.file("cases"), mine_ = folder_.file("mine");
};

TEST_F(SuiteFolder, IsWrittenAndJudgedFileByFile) {
  make_outputs("cpu/naive");
  const std::size_t count = files_of(cases_).size();
  ASSERT_GE(count, 3u);
  const Finished judged = gdnbench("verify" + suite_ + " --outputs " + mine_);
  EXPECT_EQ(judged.code, 0) << judged.text;
  EXPECT_TRUE(has(judged.text, std::to_string(count) + " passed, 0 failed")) << judged.text;
}

TEST_F(SuiteFolder, FilesThatAreThereStay) {
  const Finished first = gdnbench("gen" + suite_ + " --out " + cases_);
  ASSERT_EQ(first.code, 0) << first.text;
  const auto files = files_of(cases_);
  const auto untouched = fs::last_write_time(files[1]);
  fs::remove(files[0]);
  const Finished again = gdnbench("gen" + suite_ + " --out " + cases_ + " --json");
  EXPECT_TRUE(has(again.text, "\"written\": 1")) << again.text;
  EXPECT_TRUE(has(again.text, "\"there\": " + std::to_string(files.size() - 1))) << again.text;
  EXPECT_EQ(files_of(cases_), files);
  EXPECT_EQ(fs::last_write_time(files[1]), untouched);
}

TEST_F(SuiteFolder, OutputsOfAnotherCaseFailAndTheOthersAreJudged) {
  make_outputs("cpu/naive");
  const auto files = files_of(mine_);
  fs::copy_file(files[0], files[1], fs::copy_options::overwrite_existing);
  std::ofstream(files[2]) << "no HDF5";
  fs::remove(files.back());
  const Finished judged = gdnbench("verify" + suite_ + " --outputs " + mine_);
  EXPECT_EQ(judged.code, 1) << judged.text;
  EXPECT_TRUE(has(judged.text, std::to_string(files.size() - 3) + " passed, 2 failed"))
      << judged.text;
  EXPECT_TRUE(has(judged.text, "1 without a file")) << judged.text;
  EXPECT_TRUE(has(judged.text, files[2].string())) << judged.text;
}

TEST_F(SuiteFolder, AFolderOfNothingIsNoSuccess) {
  fs::create_directory(mine_);
  const Finished judged = gdnbench("verify" + suite_ + " --outputs " + mine_);
  EXPECT_EQ(judged.code, 2) << judged.text;
  EXPECT_TRUE(has(judged.text, "nothing was verified")) << judged.text;
  EXPECT_TRUE(has(judged.text, "gated_rms_norm."))
      << "names a file that it looked for: " << judged.text;
}

// One token near its gate's 1 and no state before it: the order of decay and update, the delta term
// and the head map are the same there as anything else.
TEST_F(SuiteFolder, APassOnOneCaseSaysWhatItDoesNotExclude) {
  const std::string poor = folder_.file("poor.h5"), out = folder_.file("out.h5");
  const std::string problem = "gated_delta:heads=1/1,dim=16,seq=1x1,dtype=bf16,gates=near_one";
  ASSERT_EQ(gdnbench("gen --problem " + problem + " --out " + poor).code, 0);
  ASSERT_EQ(gdnbench("run --case " + poor + " --impl cpu/naive --out " + out).code, 0);
  const std::string judge = "verify --case " + poor + " --outputs " + out;
  const std::string text = gdnbench(judge).text;
  for (const char* form :
       {"the decay after the update (its outputs are within the limits)",
        "an update without the delta term", "there is one key head", "there is no initial state"}) {
    EXPECT_TRUE(has(text, std::string("not told by it: ")) && has(text, form))
        << form << ": " << text;
  }
  EXPECT_TRUE(has(gdnbench(judge + " --json").text, "\"not_told\": [\"the decay after the update"));
}

TEST_F(SuiteFolder, TheSuiteQuickTellsEveryWrongFormThatIsKnown) {
  const std::string suite = " --suite quick --op gated_delta";
  ASSERT_EQ(gdnbench("gen" + suite + " --out " + cases_).code, 0);
  fs::create_directory(mine_);
  for (const fs::path& file : files_of(cases_)) {
    ASSERT_EQ(gdnbench("run --case '" + file.string() + "' --impl reference --out '" +
                       (fs::path(mine_) / file.filename()).string() + "'")
                  .code,
              0);
  }
  const Finished whole = gdnbench("verify" + suite + " --outputs " + mine_);
  EXPECT_EQ(whole.code, 0) << whole.text;
  EXPECT_FALSE(has(whole.text, "none of these cases tells")) << whole.text;
  // Of one case what no other tells.
  const auto files = files_of(mine_);
  for (const fs::path& file : files) {
    if (!has(file.filename().string(), "seq=1x193_dtype=bf16_gate=logits")) fs::remove(file);
  }
  ASSERT_EQ(files_of(mine_).size(), 1u);
  const Finished one = gdnbench("verify" + suite + " --outputs " + mine_);
  EXPECT_TRUE(has(one.text, "none of these cases tells: key head h % Hk for value head h"))
      << one.text;
}

}  // namespace
}  // namespace gdn
