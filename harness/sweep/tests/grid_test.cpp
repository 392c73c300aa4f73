// The problems that one command means: whole ones, cases, and the product of axes and presets.
#include "harness/problems/grid.h"

#include <gtest/gtest.h>

#include "harness/files/case_file.h"
#include "harness/operations/generate_case.h"
#include "harness/tests/message_of.h"
#include "harness/tests/temporary_folder.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/gated_delta.h"

namespace gdn {
namespace {

using Texts = std::vector<std::string>;

// As "1/2 8x8 1x5": what the tests change of a problem.
Texts shapes_of(const GridSpec& spec) {
  Texts shapes;
  for (const Problem& p : expand(spec)) {
    shapes.push_back(std::to_string(p.num_key_heads) + "/" + std::to_string(p.num_value_heads) +
                     " " + std::to_string(p.key_head_dim) + "x" + std::to_string(p.value_head_dim) +
                     " " + p.sequences.to_string());
  }
  return shapes;
}

GridSpec of_delta() {
  GridSpec spec;
  spec.operation = gated_delta_operation();
  return spec;
}

const std::string kWhole = "gated_delta:heads=1/2,dim=8,seq=1x5";

TEST(SplitValues, AreBetweenCommasAndNoneIsEmpty) {
  EXPECT_EQ(split_values("dim", "16"), (Texts{"16"}));
  EXPECT_EQ(split_values("dim", "16,96x192,7"), (Texts{"16", "96x192", "7"}));
  for (const char* text : {"", ",16", "16,", "16,,32"}) {
    EXPECT_EQ(message_of([&] { split_values("dim", text); }),
              "dim: an empty value in '" + std::string(text) + "'");
  }
}

TEST(Grid, OfNothingButAnOperationIsItsDefaultProblem) {
  const std::vector<Problem> problems = expand(of_delta());
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].to_string(), Problem::parse("gated_delta").to_string());
}

TEST(Grid, TheLastFieldVariesFastestInWhateverOrderAxesAreGiven) {
  GridSpec spec = of_delta();
  spec.axes = {{"seq", {"1x5", "2x3"}}, {"dim", {"8", "8x16"}}, {"heads", {"1/2", "3/3"}}};
  EXPECT_EQ(shapes_of(spec), (Texts{"1/2 8x8 1x5", "1/2 8x8 2x3", "1/2 8x16 1x5", "1/2 8x16 2x3",
                                    "3/3 8x8 1x5", "3/3 8x8 2x3", "3/3 8x16 1x5", "3/3 8x16 2x3"}));
}

TEST(Grid, WholeProblemsStandBeforeTheProductAndNoneIsThereTwice) {
  GridSpec spec = of_delta();
  spec.problems = {"gated_delta:heads=3/3,dim=4,seq=1x5", kWhole, kWhole};
  EXPECT_EQ(shapes_of(spec), (Texts{"3/3 4x4 1x5", "1/2 8x8 1x5"}));
  spec.axes = {{"heads", {"1/2"}}, {"dim", {"8", "9"}}, {"seq", {"1x5"}}};
  EXPECT_EQ(shapes_of(spec), (Texts{"3/3 4x4 1x5", "1/2 8x8 1x5", "1/2 9x9 1x5"}));
}

TEST(Grid, LaterPresetsWinAndAxesOverAll) {
  GridSpec spec = of_delta();
  spec.presets = {"qwen3-next", "paper-0.4b", "figure3"};
  spec.axes = {{"seq", {"1x5"}}};
  EXPECT_EQ(shapes_of(spec), (Texts{"9/9 128x256 1x5"}));
  spec.presets = {"paper-0.4b", "qwen3-next"};
  EXPECT_EQ(shapes_of(spec), (Texts{"16/32 128x128 1x5"}));
}

// A preset of decoding says that there is a state, of which a convolution knows nothing; one of a model says heads,
// to which channels of a convolution by itself do not belong.
TEST(Grid, APresetSaysMoreThanAnOperationLooksAt) {
  GridSpec spec;
  spec.operation = causal_conv1d_operation();
  spec.presets = {"qwen3-next-tp8", "decode"};
  spec.axes = {{"seq", {"1x5"}}};
  EXPECT_EQ(shapes_of(spec), (Texts{"2/4 128x128 1x5"}));
  spec.axes = {{"seq", {"1x5"}}, {"channels", {"5", "6"}}};
  const std::vector<Problem> problems = expand(spec);
  ASSERT_EQ(problems.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(problems[i].conv_channels(), i == 0 ? 5 : 6);
    EXPECT_EQ(problems[i].num_value_heads, Problem().num_value_heads) << problems[i].to_string();
  }
}

TEST(Grid, MisspeltAxesAndPresetsAreRefusedWithTheNearest) {
  GridSpec spec = of_delta();
  spec.axes = {{"haeds", {"1/2"}}};
  EXPECT_EQ(message_of([&] { expand(spec); }), "axis 'haeds' is unknown (did you mean 'heads'?)");
  spec.axes = {};
  spec.presets = {"qwen3-nxt"};
  EXPECT_EQ(message_of([&] { expand(spec); }),
            "preset 'qwen3-nxt' is unknown (did you mean 'qwen3-next'?)");
}

// A pool that the sequences do not fit is said before anything is run.
TEST(Grid, ProblemsWithoutARowForEachSequenceAreRefused) {
  GridSpec spec = of_delta();
  spec.axes = {{"seq", {"4x3"}}, {"slots", {"permuted"}}, {"pool_rows", {"3"}}};
  EXPECT_NE(message_of([&] { expand(spec); }).find("pool_rows=3"), std::string::npos);
}

class GridOfACase : public ::testing::Test {
 protected:
  GridOfACase() {
    write_case(generate_case(Problem::parse("gated_delta_layer:heads=1/2,dim=8,seq=1x5,dtype=f32")),
               path_);
    spec_.operation = gated_delta_operation();
    spec_.cases = {path_};
  }
  // As "gated_delta f32".
  Texts read() const {
    Texts found;
    for (const Problem& p : expand(spec_)) {
      found.push_back(p.operation->name + " " + short_name(p.token_dtype));
      EXPECT_EQ(p.case_file.empty(), p.key_head_dim != 8) << p.to_string();
    }
    return found;
  }
  const TemporaryFolder folder_;
  const std::string path_ = folder_.file("layer.h5");
  GridSpec spec_;
};

TEST_F(GridOfACase, IsItsInnerStepsAndItselfUnlessAnOperationIsMeant) {
  EXPECT_EQ(read(), (Texts{"gated_delta f32", "gated_delta_layer f32"}));
  spec_.operation_given = true;
  EXPECT_EQ(read(), (Texts{"gated_delta f32"}));
}

TEST_F(GridOfACase, TakesTheAxesThatItMayAndOthersMakeAProductBeside) {
  spec_.operation_given = true;
  spec_.axes = {{"dtype", {"bf16", "f16"}}};
  EXPECT_EQ(read(), (Texts{"gated_delta bf16", "gated_delta f16"}));
  spec_.axes = {{"dtype", {"bf16", "f16"}}, {"dim", {"4"}}};
  EXPECT_EQ(read(),
            (Texts{"gated_delta bf16", "gated_delta f16", "gated_delta bf16", "gated_delta f16"}));
}

}  // namespace
}  // namespace gdn
