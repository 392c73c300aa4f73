// What must be equal bit for bit, or stay so: repeated runs, sequences alone and in a batch, pool
// rows nobody owns; and that a call cut in two gives the whole's result.
#include <cmath>
#include <cstring>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "interface/operations/gated_delta.h"
#include "reference/errors.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

class GatedDeltaBits : public ImplementationTest {
 protected:
  /// The first of the problems that the implementation supports, as a case.
  Case supported_case(const std::string& options) {
    for (const char* shape : {"dim=64,dtype=f32", "dim=64,dtype=bf16", "dim=128,dtype=bf16",
                              "dim=128,dtype=bf16,decay=channel"}) {
      const Problem problem =
          Problem::parse("gated_delta:heads=2/4," + std::string(shape) + options);
      if (implementation().supports(problem)) return generate_case(problem);
    }
    return {};
  }
  Outputs run(const Case& inputs) const { return execute(implementation(), inputs, device()); }

  static std::int64_t output_per_token(const Case& inputs) {
    return inputs.problem.num_value_heads * inputs.problem.value_head_dim;
  }
};

TEST_P(GatedDeltaBits, TwoRunsAreEqual) {
  if (!implementation().description().bitwise_repeatable) {
    GTEST_SKIP() << "declared not repeatable";
  }
  const Case inputs = supported_case(",seq=200+0+65+1,gates=mid,h0=normal");
  ASSERT_FALSE(inputs["q"].empty());
  SCOPED_TRACE(inputs.problem.to_string());
  const Outputs first = run(inputs), second = run(inputs);
  EXPECT_TRUE(same_bits(first["output"], second["output"]));
  EXPECT_TRUE(same_bits(first["final_state"], second["final_state"]));
}

TEST_P(GatedDeltaBits, ASequenceAloneIsTheSameAsInABatch) {
  if (!implementation().description().batch_invariant) {
    GTEST_SKIP() << "declared not batch invariant";
  }
  const Case batch = supported_case(",seq=65+200+1+0+130,gates=mid,h0=normal");
  ASSERT_FALSE(batch["q"].empty());
  SCOPED_TRACE(batch.problem.to_string());
  const Outputs together = run(batch);
  const std::int64_t row = batch.problem.state_row_stride();
  for (std::int64_t n = 0; n < batch.problem.num_sequences(); ++n) {
    const std::int64_t first = batch.sequence_offsets[static_cast<std::size_t>(n)];
    const std::int64_t last = batch.sequence_offsets[static_cast<std::size_t>(n) + 1];
    const Outputs alone = run(case_of_pieces(batch, {{n, 0, last - first}}));
    EXPECT_TRUE(same_bits(alone["output"],
                          token_range(together["output"], output_per_token(batch), first, last)))
        << "sequence " << n;
    EXPECT_TRUE(
        same_bits(alone["final_state"], token_range(together["final_state"], row, n, n + 1)))
        << "sequence " << n;
  }
}

TEST_P(GatedDeltaBits, DuplicatesInABatchAreEqual) {
  if (!implementation().description().batch_invariant) {
    GTEST_SKIP() << "declared not batch invariant";
  }
  const Case source = supported_case(",seq=130+67,gates=mid,h0=normal");
  ASSERT_FALSE(source["q"].empty());
  SCOPED_TRACE(source.problem.to_string());
  const Outputs out =
      run(case_of_pieces(source, {{0, 0, 130}, {1, 0, 67}, {0, 0, 130}, {0, 0, 130}}));
  const std::int64_t row = source.problem.state_row_stride();
  const std::vector<float> first = token_range(out["output"], output_per_token(source), 0, 130);
  for (const std::int64_t start : {197, 327}) {
    EXPECT_TRUE(
        same_bits(first, token_range(out["output"], output_per_token(source), start, start + 130)));
  }
  for (const std::int64_t n : {2, 3}) {
    EXPECT_TRUE(same_bits(token_range(out["final_state"], row, 0, 1),
                          token_range(out["final_state"], row, n, n + 1)));
  }
}

// Two calls joined by the state against the float64 recurrence over the whole: within the limits of
// one call, widened by the one more rounding of the state to its pool's dtype.
TEST_P(GatedDeltaBits, TwoCallsJoinedByTheStateContinueTheSequence) {
  const std::int64_t length = emulated() ? 130 : 300;
  for (const char* state : {"f32", "bf16", "f16"}) {
    const Case whole = supported_case(",seq=" + std::to_string(length) +
                                      ",gates=near_one,h0=normal,state=" + state);
    ASSERT_FALSE(whole["q"].empty());
    const auto reference = reference::evaluate<double>(whole);
    std::vector<std::int64_t> cuts = {1, 64, 100, length - 1};
    // How a state is rounded on its way shows at any.
    if (emulated() && whole.problem.state_dtype != DType::float32) cuts = {64};
    for (const std::int64_t cut : cuts) {
      SCOPED_TRACE(whole.problem.to_string() + " cut at " + std::to_string(cut));
      const Outputs first = run(case_of_pieces(whole, {{0, 0, cut}}));
      Case rest = case_of_pieces(whole, {{0, cut, length}});
      rest["initial_state"] = first["final_state"];
      const Outputs second = run(rest);
      Outputs joined = first;
      joined["output"].insert(joined["output"].end(), second["output"].begin(),
                              second["output"].end());
      joined["final_state"] = second["final_state"];
      const auto report = reference::compare(whole, reference, joined);
      reference::ErrorLimits limits = report.limits;
      const double rounding = unit_roundoff(whole.problem.state_dtype);
      limits["output"].relative_l2 += rounding;
      limits["final_state"].relative_l2 += rounding;
      EXPECT_EQ(reference::violation(report, limits), "");
    }
  }
}

TEST_P(GatedDeltaBits, PoolRowsOfNobodyStayAsTheyAre) {
  for (const char* options : {",slots=padding,layout=kv", ",slots=permuted,layout=vk",
                              ",slots=padding,state=bf16", ",slots=padding,ht=0"}) {
    const Case inputs = supported_case(std::string(",seq=40+0+65+7+1+33,gates=mid,h0=normal,"
                                                   "pool_pad=24") +
                                       options);
    ASSERT_FALSE(inputs["q"].empty());
    SCOPED_TRACE(inputs.problem.to_string());
    const Outputs outputs = run(inputs);
    const Problem& p = inputs.problem;
    const std::int64_t stride = p.state_row_stride(), used = stride - p.pool_row_padding;
    for (std::int64_t row = 0; row < p.num_pool_rows(); ++row) {
      bool written = false;
      for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
        written |= p.final_state && inputs.slot_index[static_cast<std::size_t>(n)] == row &&
                   p.sequences.lengths[static_cast<std::size_t>(n)] > 0;
      }
      const std::vector<float> before = token_range(inputs["initial_state"], stride, row, row + 1);
      const std::vector<float> after = token_range(outputs["final_state"], stride, row, row + 1);
      EXPECT_TRUE(
          same_bits(token_range(before, 1, used, stride), token_range(after, 1, used, stride)))
          << "padding of row " << row;
      EXPECT_EQ(same_bits(token_range(before, 1, 0, used), token_range(after, 1, 0, used)),
                !written)
          << "row " << row;
    }
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      if (inputs.slot_index[static_cast<std::size_t>(n)] >= 0) continue;
      const auto at = static_cast<std::size_t>(n);
      for (const float x :
           token_range(outputs["output"], output_per_token(inputs), inputs.sequence_offsets[at],
                       inputs.sequence_offsets[at + 1])) {
        ASSERT_EQ(x, 0.0f) << "output of padding sequence " << n;
      }
    }
  }
}

// A plan reads offsets and slots when it runs, not when it is made.
TEST_P(GatedDeltaBits, APlanFollowsOffsetsThatChange) {
  const Case planned = supported_case(",seq=100+97,gates=mid,h0=normal");
  ASSERT_FALSE(planned["q"].empty());
  SCOPED_TRACE(planned.problem.to_string());
  DeviceCase on_device(planned, device());
  const auto plan = implementation().plan(planned.problem, on_device.arguments(), device());
  plan->run();
  device().synchronize();
  const Outputs before = on_device.download();

  const std::vector<std::int64_t> offsets = {0, 30, 197};
  device().upload(const_cast<void*>(on_device.arguments().input("sequence_offsets")),
                  offsets.data(), static_cast<std::int64_t>(offsets.size() * sizeof(std::int64_t)));
  on_device.reset_async();
  plan->run();
  const Outputs after = on_device.download();

  Case moved = planned;
  moved.sequence_offsets = offsets;
  moved.problem.sequences.lengths = {30, 167};
  const Outputs expected = run(moved);
  EXPECT_FALSE(same_bits(before["output"], after["output"]));
  if (implementation().description().batch_invariant) {
    EXPECT_TRUE(same_bits(after["output"], expected["output"]));
    EXPECT_TRUE(same_bits(after["final_state"], expected["final_state"]));
  }
  const auto report = reference::compare(moved, reference::evaluate<double>(moved), after);
  EXPECT_EQ(reference::violation(report, report.limits), "");
}

GDN_INSTANTIATE_FOR(GatedDeltaBits, gated_delta_operation());

}  // namespace
}  // namespace gdn
