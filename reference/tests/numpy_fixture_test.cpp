// The reference against an independent recurrence in numpy (scripts/make_numpy_fixtures.py), frozen
// in data/fixtures/numpy_reference.h5: twenty small cases over all operations, variants and
// options.
#include <gtest/gtest.h>

#include "harness/files/outputs_file.h"
#include "reference/tests/dense_formulation.h"

namespace gdn::reference::testing {
namespace {

class NumpyFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(NumpyFixture, AgreesTo1e12) {
  const std::string path =
      std::string(GDN_SOURCE_DIR) + "/data/fixtures/numpy_reference.h5:/" + GetParam();
  const Case c = read_case(path);
  const StoredOutputs expected = read_outputs(c, path + "/outputs");
  const auto actual = evaluate<double>(c);
  for (const Operand& operand : c.problem.operation->operands) {
    if (!operand.is_output() || operand.hand_over.between_steps) continue;
    if (!is_present(operand, c.problem)) continue;
    const std::string& name = operand.output_name();
    ASSERT_TRUE(expected.arrays.has(name)) << name;
    ASSERT_FALSE(expected.arrays[name].empty()) << name;
    const double error = relative_difference(actual[name], expected.arrays[name]);
    EXPECT_TRUE(error <= 1e-12) << name << ": " << error;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, NumpyFixture,
                         ::testing::Values("plain", "ragged_slots_vk", "bfloat16_reset", "logits",
                                           "no_final_state", "conv", "conv_by_time", "layer",
                                           "layer_by_time", "additive", "additive_channel",
                                           "channel", "channel_logits", "steps_2",
                                           "steps_3_channel", "steps_2_additive", "layer_channel",
                                           "layer_additive", "bounded", "channel_bounded"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace gdn::reference::testing
