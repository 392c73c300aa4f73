// Real inputs: the first 1024 tokens of one layer of the trace (data/README.md), all its heads,
// through the two-pass layer, executed as gfx906 machine code. Correlated keys and heads that
// hardly forget, over 32 chunks of 32.
#include <gtest/gtest.h>

#include <cstdio>

#include "harness/files/case_file.h"
#include "harness/run/execute.h"
#include "hip/emulator_device.h"
#include "interface/operations/gated_delta_layer.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/errors.h"
#include "reference/reference.h"

namespace gdn::hip {
namespace {

constexpr std::int64_t kTokens = 1024;
/// Relative L2 of whatever is float32 throughout.
constexpr double kFloat32Bound = 2e-6;

/// The case's first `tokens` tokens, which must be one sequence.
Case first_tokens(Case whole, std::int64_t tokens) {
  const Problem& problem = whole.problem;
  whole["qkv"].resize(static_cast<std::size_t>(tokens * problem.conv_channels()));
  whole[gate_name(whole.problem)].resize(
      static_cast<std::size_t>(tokens * problem.num_value_heads));
  whole[beta_name(whole.problem)].resize(
      static_cast<std::size_t>(tokens * problem.num_value_heads));
  whole.problem.sequences.lengths = {tokens};
  whole.sequence_offsets = {0, tokens};
  validate(whole);
  return whole;
}

struct TraceRun {
  std::string implementation;
  DType token_dtype;
};

class RealTrace : public testing::TestWithParam<TraceRun> {};

TEST_P(RealTrace, AThousandTokensOfALayerStayWithinTheLimits) {
  const TraceRun& run = GetParam();
  const std::string path = GDN_SOURCE_DIR "/data/gdn_lm_trace.h5:/layer0";
  const Case inputs = first_tokens(read_case_as(path, run.token_dtype, DType::float32), kTokens);
  ASSERT_EQ(inputs.problem.num_value_heads, 4);
  const Implementation& layer =
      find_implementation(gated_delta_layer_operation(), run.implementation);
  const Support support = layer.supports(inputs.problem);
  ASSERT_TRUE(support) << support.reason;
  const auto device = open_emulator();
  const reference::ErrorReport report = reference::compare(
      inputs, reference::evaluate<double>(inputs), execute(layer, inputs, *device));
  SCOPED_TRACE(run.implementation + " on " + inputs.problem.to_string());
  EXPECT_EQ(report.checked_pairs, 4);
  EXPECT_EQ(reference::violation(report, report.limits), "");
  const reference::TensorError& state = report["final_state"].worst().error;
  const reference::TensorError& output = report["output"].worst().error;
  // The state is float32 in every run, and so is everything between qkv and the output's rounding.
  EXPECT_FALSE(!(state.relative_l2 <= kFloat32Bound)) << state.relative_l2;
  if (run.token_dtype == DType::float32) {
    EXPECT_FALSE(!(output.relative_l2 <= kFloat32Bound)) << output.relative_l2;
  } else {
    EXPECT_FALSE(!(output.floor_ratio <= 2)) << output.floor_ratio;
  }
  std::printf("output %.2e (%.2f floors), state %.2e\n", output.relative_l2, output.floor_ratio,
              state.relative_l2);
}

INSTANTIATE_TEST_SUITE_P(TwoPassLayer, RealTrace,
                         testing::Values(TraceRun{"hip/fused", DType::float32},
                                         TraceRun{"hip/fused", DType::float16},
                                         TraceRun{"hip/fused", DType::bfloat16},
                                         TraceRun{"hip/chunkwise", DType::float32},
                                         TraceRun{"hip/chunkwise", DType::float16},
                                         TraceRun{"hip/recurrent", DType::float32},
                                         TraceRun{"hip/recurrent", DType::float16}),
                         [](const testing::TestParamInfo<TraceRun>& instance) {
                           std::string name = instance.param.implementation + "_" +
                                              short_name(instance.param.token_dtype);
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace gdn::hip
