// Conventions of other systems. Each adapter is held to a kernel that knows only its own system's
// documentation (foreign_kernels.h): the outputs it makes of an exported case must be right once
// imported, and wrong when read by any other convention's rules.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>

#include "harness/conventions/convert.h"
#include "harness/conventions/semantics.h"
#include "harness/conventions/tests/convention_examples.h"
#include "harness/files/hdf5_group.h"
#include "harness/operations/generate_case.h"
#include "harness/tests/temporary_folder.h"
#include "harness/verify/verify.h"
#include "interface/error.h"
#include "reference/reference.h"

namespace gdn::conventions {
namespace {

// The same arrays, of the same bits.
void expect_same_arrays(const Arrays<float>& a, const Arrays<float>& b) {
  std::set<std::string> names_of_a, names_of_b;
  for (const auto& [name, values] : a) names_of_a.insert(name);
  for (const auto& [name, values] : b) names_of_b.insert(name);
  ASSERT_EQ(names_of_a, names_of_b);
  for (const auto& [name, values] : a) {
    const std::vector<float>& others = b[name];
    ASSERT_EQ(values.size(), others.size()) << name;
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(others[i]))
          << name << " at " << i << ": " << values[i] << " and " << others[i];
    }
  }
}

void expect_same_case(const Case& a, const Case& b) {
  EXPECT_EQ(a.sequence_offsets, b.sequence_offsets);
  EXPECT_EQ(a.slot_index, b.slot_index);
  EXPECT_EQ(a.problem.num_key_heads, b.problem.num_key_heads);
  EXPECT_EQ(a.problem.num_value_heads, b.problem.num_value_heads);
  EXPECT_EQ(a.problem.channels, b.problem.channels);
  EXPECT_EQ(a.problem.token_dtype, b.problem.token_dtype);
  EXPECT_EQ(a.problem.state_dtype, b.problem.state_dtype);
  EXPECT_EQ(a.problem.state_layout, b.problem.state_layout);
  EXPECT_EQ(a.problem.conv_layout, b.problem.conv_layout);
  EXPECT_EQ(a.problem.activation, b.problem.activation);
  EXPECT_EQ(a.problem.normalize_qk, b.problem.normalize_qk);
  EXPECT_EQ(a.problem.effective_scale(), b.problem.effective_scale());
  EXPECT_EQ(a.problem.gate_encoding, b.problem.gate_encoding);
  EXPECT_EQ(a.problem.beta_encoding, b.problem.beta_encoding);
  expect_same_arrays(a.arrays, b.arrays);
}

VerifyResult judge(const Case& ours, const Outputs& outputs) {
  return verify_outputs(CheckedReference(ours), outputs);
}

class EachConvention : public ::testing::TestWithParam<Example> {
 protected:
  const Convention& convention() const { return find_convention(GetParam().convention); }
  TemporaryFolder folder_;
};

TEST_P(EachConvention, ItsOwnKernelsOutputsAreRightOnceImported) {
  for (const char* problem : GetParam().problems()) {
    const Case ours = example_case(GetParam(), problem);
    export_case(convention(), ours, folder_.file("in.h5") + ":/");
    run_foreign_kernel(GetParam(), ours, folder_.file("in.h5"), folder_.file("out.h5"));
    const auto imported = import_outputs(convention(), ours, folder_.file("out.h5"));
    EXPECT_EQ(imported.origin.implementation, std::string("their/") + GetParam().convention);
    const VerifyResult result = judge(ours, imported.outputs);
    EXPECT_TRUE(result.passed()) << problem << ": " << result.reason;
    std::filesystem::remove(folder_.file("in.h5"));
  }
}

TEST_P(EachConvention, RoundTripsOfCasesAndOutputsAreBitwise) {
  for (const char* problem : GetParam().problems()) {
    const Case ours = example_case(GetParam(), problem);
    const std::string in = folder_.file("in.h5");
    export_case(convention(), ours, in);
    expect_same_case(import_case(convention(), in), ours);
    run_foreign_kernel(GetParam(), ours, in, folder_.file("out.h5"));
    const Outputs first = import_outputs(convention(), ours, folder_.file("out.h5")).outputs;
    export_outputs(convention(), ours, first, {}, folder_.file("again.h5"));
    const Outputs second = import_outputs(convention(), ours, folder_.file("again.h5")).outputs;
    expect_same_arrays(first, second);
    EXPECT_TRUE(first.has("output") || first.has("conv_output")) << problem;
    std::filesystem::remove(in);
  }
}

// Channels that are not known as q, k and v are those of no heads, however few.
TEST_P(EachConvention, ChannelsOfAConvolutionNeedNoHeads) {
  if (!GetParam().has_convolution()) GTEST_SKIP() << "has no convolution";
  const std::string of_heads = "heads=1/2,dim=8";
  for (const char* channels : {"1", "2", "5"}) {
    std::string problem = GetParam().convolution;
    ASSERT_NE(problem.find(of_heads), std::string::npos) << problem;
    problem.replace(problem.find(of_heads), of_heads.size(), "channels=" + std::string(channels));
    const Case ours = example_case(GetParam(), problem.c_str());
    const std::string in = folder_.file("in.h5");
    export_case(convention(), ours, in);
    EXPECT_FALSE(GroupReader(in, "/").has_attribute("num_key_heads")) << problem;
    expect_same_case(import_case(convention(), in), ours);
    run_foreign_kernel(GetParam(), ours, in, folder_.file("out.h5"));
    const auto imported = import_outputs(convention(), ours, folder_.file("out.h5"));
    const VerifyResult result = judge(ours, imported.outputs);
    EXPECT_TRUE(result.passed()) << problem << ": " << result.reason;
    std::filesystem::remove(in);
  }
}

// What the conventions were not written for.
TEST_P(EachConvention, WindowsHeldOtherwiseAreRefused) {
  if (!GetParam().has_convolution()) GTEST_SKIP() << "has no convolution";
  for (const char* field :
       {"window=read", "window=none", "window_layout=channels", "window_length=14",
        "window_order=ring", "fresh=1", "residual=1", "residual=tensor", "weights=f32"}) {
    const std::string problem = std::string(GetParam().convolution) + "," + field;
    const Case ours = example_case(GetParam(), problem.c_str());
    try {
      export_case(convention(), ours, folder_.file("refused.h5"));
      ADD_FAILURE() << problem << ": taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("says nothing of " + std::string(field)),
                std::string::npos)
          << problem << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Conventions, EachConvention, ::testing::ValuesIn(examples()),
                         [](const auto& parameter) {
                           std::string name = parameter.param.convention;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// An encoding that no convention has is decoded, and its bound is not handed on with it.
TEST(Conventions, BoundedGatesAndBetasUpToTwoAreDecoded) {
  const Case ours = generate_case(Problem::parse(
      "gated_delta:heads=2/4,dim=8,seq=20,dtype=f32,h0=normal,gates=bounded,gate=bounded,bound=2,"
      "betas=wide,beta=logit2"));
  const auto expected = reference::decode_gates<double>(ours);
  const Case theirs = to_foreign(find_convention("fla"), ours);
  theirs.problem.validate();
  ASSERT_EQ(theirs["log_decay"].size(), expected.log_decay.size());
  for (std::size_t i = 0; i < expected.log_decay.size(); ++i) {
    EXPECT_EQ(theirs["log_decay"][i], static_cast<float>(expected.log_decay[i])) << i;
    EXPECT_EQ(theirs["beta"][i], static_cast<float>(expected.beta[i])) << i;
  }
  EXPECT_FALSE(theirs.arrays.has("A_log"));
}

// A kernel that always reads a state is given one of zeros; one that may go without is given none.
TEST(Conventions, AStateIsWrittenForAllWhoseKernelsCannotDoWithout) {
  const std::set<std::string> always_read = {"max", "flashinfer-decode", "ggml", "mlx-native",
                                             "vllm"};
  for (const Example& example : examples()) {
    std::string problem = example.gated_delta;
    for (const std::string field : {",h0=normal", ",slots=permuted", ",slots=padding"}) {
      const auto at = problem.find(field);
      if (at != std::string::npos) problem.erase(at, field.size());
    }
    const TemporaryFolder folder;
    const Case ours = example_case(example, problem.c_str());
    ASSERT_EQ(ours.problem.initial_state, InitialState::absent) << problem;
    const Convention& convention = find_convention(example.convention);
    export_case(convention, ours, folder.file("in.h5"));
    const bool is_there =
        GroupReader(folder.file("in.h5"), "/").has_dataset(convention.initial_state.name);
    EXPECT_EQ(is_there, always_read.count(example.convention) > 0) << example.convention;
    const Case imported = import_case(convention, folder.file("in.h5"));
    EXPECT_EQ(imported.problem.initial_state != InitialState::absent, is_there)
        << example.convention;
    for (const float x : imported["initial_state"]) {
      ASSERT_TRUE(is_there ? x == 0 : std::isnan(x)) << example.convention << ": " << x;
    }
    run_foreign_kernel(example, ours, folder.file("in.h5"), folder.file("out.h5"));
    const VerifyResult result =
        judge(ours, import_outputs(convention, ours, folder.file("out.h5")).outputs);
    EXPECT_TRUE(result.passed()) << example.convention << ": " << result.reason;
  }
}

TEST(Conventions, EveryConventionHasAnExample) {
  ASSERT_EQ(examples().size(), all_conventions().size());
  for (std::size_t i = 0; i < examples().size(); ++i) {
    EXPECT_EQ(examples()[i].convention, all_conventions()[i].name);
    EXPECT_EQ(examples()[i].has_convolution(), all_conventions()[i].convolution.has_value());
  }
}

}  // namespace
}  // namespace gdn::conventions
