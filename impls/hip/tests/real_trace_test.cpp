// Real inputs: the first 1024 tokens of one layer of the trace (data/README.md), all its heads,
// through the two-pass layer, executed as gfx906 machine code. Correlated keys and heads that
// hardly forget, over 32 chunks of 32.
#include <gtest/gtest.h>

#include <cstdio>

#include "harness/case_file.h"
#include "harness/execute.h"
#include "hip/emulator_device.h"
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
  whole.qkv.resize(static_cast<std::size_t>(tokens * problem.conv_channels()));
  whole.gate.values.resize(static_cast<std::size_t>(tokens * problem.num_value_heads));
  whole.beta.values.resize(static_cast<std::size_t>(tokens * problem.num_value_heads));
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
      find_implementation(Operation::gated_delta_layer, run.implementation);
  const Support support = layer.supports(inputs.problem);
  ASSERT_TRUE(support) << support.reason;
  const auto device = open_emulator();
  const reference::ErrorReport report = reference::compare(
      inputs, reference::evaluate<double>(inputs), execute(layer, inputs, *device));
  SCOPED_TRACE(run.implementation + " on " + inputs.problem.to_string());
  EXPECT_EQ(report.checked_pairs, 4);
  EXPECT_EQ(reference::first_violation(report, report.limits), "");
  // The state is float32 in every run, and so is everything between qkv and the output's rounding.
  EXPECT_FALSE(!(report.worst_state.state.relative_l2 <= kFloat32Bound))
      << report.worst_state.state.relative_l2;
  if (run.token_dtype == DType::float32) {
    EXPECT_FALSE(!(report.worst_output.output.relative_l2 <= kFloat32Bound))
        << report.worst_output.output.relative_l2;
  } else {
    EXPECT_FALSE(!(report.worst_output.output.floor_ratio <= 2))
        << report.worst_output.output.floor_ratio;
  }
  std::printf("output %.2e (%.2f floors), state %.2e\n", report.worst_output.output.relative_l2,
              report.worst_output.output.floor_ratio, report.worst_state.state.relative_l2);
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
