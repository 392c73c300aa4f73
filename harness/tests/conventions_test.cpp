// Conventions of other systems. Each adapter is held to a kernel that knows only its own system's
// documentation (foreign_kernels.h): the outputs it makes of an exported case must be right once
// imported, and wrong when read by any other convention's rules.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "harness/conventions/convert.h"
#include "harness/hdf5_group.h"
#include "harness/inputs.h"
#include "harness/tests/convention_examples.h"
#include "harness/tests/temporary_folder.h"
#include "harness/verify.h"
#include "interface/error.h"

namespace gdn::conventions {
namespace {

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const char* name) {
  ASSERT_EQ(a.size(), b.size()) << name;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i]))
        << name << " at " << i << ": " << a[i] << " and " << b[i];
  }
}

void expect_same_case(const Case& a, const Case& b) {
  EXPECT_EQ(a.sequence_offsets, b.sequence_offsets);
  EXPECT_EQ(a.slot_index, b.slot_index);
  EXPECT_EQ(a.problem.num_key_heads, b.problem.num_key_heads);
  EXPECT_EQ(a.problem.num_value_heads, b.problem.num_value_heads);
  EXPECT_EQ(a.problem.token_dtype, b.problem.token_dtype);
  EXPECT_EQ(a.problem.state_dtype, b.problem.state_dtype);
  EXPECT_EQ(a.problem.state_layout, b.problem.state_layout);
  EXPECT_EQ(a.problem.conv_layout, b.problem.conv_layout);
  EXPECT_EQ(a.problem.activation, b.problem.activation);
  EXPECT_EQ(a.problem.normalize_qk, b.problem.normalize_qk);
  EXPECT_EQ(a.problem.effective_scale(), b.problem.effective_scale());
  EXPECT_EQ(a.gate.encoding, b.gate.encoding);
  EXPECT_EQ(a.beta.encoding, b.beta.encoding);
  expect_same_bits(a.query, b.query, "q");
  expect_same_bits(a.key, b.key, "k");
  expect_same_bits(a.value, b.value, "v");
  expect_same_bits(a.gate.values, b.gate.values, "gate");
  expect_same_bits(a.gate.A_log, b.gate.A_log, "A_log");
  expect_same_bits(a.gate.dt_bias, b.gate.dt_bias, "dt_bias");
  expect_same_bits(a.beta.values, b.beta.values, "beta");
  expect_same_bits(a.state_pool, b.state_pool, "state_pool");
  expect_same_bits(a.qkv, b.qkv, "qkv");
  expect_same_bits(a.conv_weight, b.conv_weight, "conv_weight");
  expect_same_bits(a.conv_bias, b.conv_bias, "conv_bias");
  expect_same_bits(a.conv_state, b.conv_state, "conv_state");
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
    expect_same_bits(first.output, second.output, "output");
    expect_same_bits(first.state_pool, second.state_pool, "final_state");
    expect_same_bits(first.conv_output, second.conv_output, "conv_output");
    expect_same_bits(first.conv_state, second.conv_state, "conv_state");
    std::filesystem::remove(in);
  }
}

INSTANTIATE_TEST_SUITE_P(Conventions, EachConvention, ::testing::ValuesIn(examples()),
                         [](const auto& parameter) {
                           std::string name = parameter.param.convention;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Conventions, EveryConventionHasAnExample) {
  ASSERT_EQ(examples().size(), all_conventions().size());
  for (std::size_t i = 0; i < examples().size(); ++i) {
    EXPECT_EQ(examples()[i].convention, all_conventions()[i].name);
    EXPECT_EQ(examples()[i].has_convolution(), all_conventions()[i].convolution.has_value());
  }
}

}  // namespace
}  // namespace gdn::conventions
