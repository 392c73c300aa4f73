// Conventions of other systems. Each adapter is held to a kernel that knows only its own system's
// documentation (foreign_kernels.h): the outputs it makes of an exported case must be right once
// imported, and wrong when read by any other convention's rules.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "harness/conventions/convert.h"
#include "harness/hdf5_group.h"
#include "harness/inputs.h"
#include "harness/tests/foreign_kernels.h"
#include "harness/tests/temporary_folder.h"
#include "harness/verify.h"
#include "interface/error.h"

namespace gdn::conventions {
namespace {

struct Example {
  const char* convention;
  const char* gated_delta;  // converts to the convention without rounding
  const char* convolution;  // empty: it has none
};

// Decays between 0.8 and 1, a non-symmetric initial state, grouped heads that are neither equal to
// the key heads nor of one key head, tails: what makes a wrong reading visible.
const Example kExamples[] = {
    {"max",
     "gated_delta:heads=2/6,dim=12,seq=1x37+1x0+1x5,dtype=f32,state=bf16,h0=normal,gates=mid,"
     "gate=decay,norm=1,keys=unnormalised,slots=permuted,seed=3",
     "causal_conv1d:heads=1/2,dim=8,seq=1x5+1x0+1x2,dtype=f32,state=bf16,act=none,slots=permuted"},
    {"huggingface",
     "gated_delta:heads=6/6,dim=12,seq=2x37,dtype=bf16,h0=normal,gates=mid,norm=1,seed=3",
     "causal_conv1d:heads=1/2,dim=8,seq=2x5,dtype=f16,state=f16,bias=1"},
    {"fla",
     "gated_delta:heads=2/6,dim=12x8,seq=1x37+1x0+1x5,dtype=bf16,h0=normal,gates=mid,norm=1,"
     "scale=0.3,seed=3",
     "causal_conv1d:heads=1/2,dim=8,seq=1x5+1x0+1x2,dtype=bf16,bias=1,act=none"},
    {"flashinfer-prefill",
     "gated_delta:heads=2/6,dim=12,seq=1x37+1x0+1x5,dtype=f16,state=bf16,layout=vk,h0=normal,"
     "gates=mid,gate=decay,slots=permuted,scale=0.3,seed=3",
     ""},
    {"flashinfer-decode",
     "gated_delta:heads=2/6,dim=12,seq=9x1,dtype=f16,layout=vk,h0=normal,gate=logits,beta=logit,"
     "norm=1,slots=padding,seed=3",
     ""},
    {"ggml", "gated_delta:heads=2/6,dim=12,seq=2x37,dtype=f32,layout=vk,h0=normal,gates=mid,seed=3",
     "causal_conv1d:heads=1/2,dim=8,seq=2x5,dtype=f32,act=none"},
    {"mlx-native",
     "gated_delta:heads=2/6,dim=12,seq=2x37,dtype=f32,layout=vk,h0=normal,gates=mid,"
     "gate=neg_log_decay,scale=1,seed=3",
     "causal_conv1d:heads=1/2,dim=8,seq=2x5,dtype=bf16"},
    {"vllm",
     "gated_delta:heads=2/6,dim=12,seq=1x37+1x0+1x5+1x3,dtype=bf16,state=f16,layout=vk,h0=normal,"
     "gates=mid,norm=1,slots=padding,seed=3",
     "causal_conv1d:heads=1/2,dim=8,seq=1x5+1x0+1x2,dtype=bf16,state=bf16,bias=1,conv_layout=time,"
     "slots=padding"},
};

// The example's case. Gates in 16 bits where the convention wants them so.
Case example_case(const Example& example, const char* problem) {
  Case c = generate_case(Problem::parse(problem));
  if (find_convention(example.convention).gates_in_token_dtype) {
    for (float& x : c.gate.values) x = round_to(c.problem.token_dtype, x);
    for (float& x : c.beta.values) x = round_to(c.problem.token_dtype, x);
  }
  return c;
}

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
  std::vector<const char*> problems() const {
    std::vector<const char*> problems = {GetParam().gated_delta};
    if (*GetParam().convolution != '\0') problems.push_back(GetParam().convolution);
    return problems;
  }
  void run_kernel(const Case& c, const std::string& in, const std::string& out) const {
    if (c.problem.operation == Operation::causal_conv1d) {
      testing::run_foreign_convolution(GetParam().convention, in, out);
    } else {
      testing::run_foreign_gated_delta(GetParam().convention, in, out);
    }
  }
  TemporaryFolder folder_;
};

TEST_P(EachConvention, ItsOwnKernelsOutputsAreRightOnceImported) {
  for (const char* problem : problems()) {
    const Case ours = example_case(GetParam(), problem);
    export_case(convention(), ours, folder_.file("in.h5") + ":/");
    run_kernel(ours, folder_.file("in.h5"), folder_.file("out.h5"));
    const auto imported = import_outputs(convention(), ours, folder_.file("out.h5"));
    EXPECT_EQ(imported.origin.implementation, std::string("their/") + GetParam().convention);
    const VerifyResult result = judge(ours, imported.outputs);
    EXPECT_TRUE(result.passed()) << problem << ": " << result.reason;
    std::filesystem::remove(folder_.file("in.h5"));
  }
}

TEST_P(EachConvention, RoundTripsOfCasesAndOutputsAreBitwise) {
  for (const char* problem : problems()) {
    const Case ours = example_case(GetParam(), problem);
    const std::string in = folder_.file("in.h5");
    export_case(convention(), ours, in);
    expect_same_case(import_case(convention(), in), ours);
    run_kernel(ours, in, folder_.file("out.h5"));
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

INSTANTIATE_TEST_SUITE_P(Conventions, EachConvention, ::testing::ValuesIn(kExamples),
                         [](const auto& parameter) {
                           std::string name = parameter.param.convention;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Conventions, EveryConventionHasAnExample) {
  ASSERT_EQ(std::size(kExamples), all_conventions().size());
  for (std::size_t i = 0; i < std::size(kExamples); ++i) {
    EXPECT_EQ(kExamples[i].convention, all_conventions()[i].name);
    EXPECT_EQ(*kExamples[i].convolution != '\0', all_conventions()[i].convolution.has_value());
  }
}

}  // namespace
}  // namespace gdn::conventions
