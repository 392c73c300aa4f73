// The error analysis must see every fault it is there to see, and say where.
#include "reference/errors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/inputs.h"
#include "interface/error.h"

namespace gdn::reference {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> rounded(DType dtype, const std::vector<double>& values) {
  std::vector<float> result;
  for (double x : values) result.push_back(round_to(dtype, static_cast<float>(x)));
  return result;
}

// A case, its reference, and the best outputs there can be: the reference rounded. Tests damage
// them.
struct Judged {
  explicit Judged(const std::string& problem)
      : inputs(generate_case(Problem::parse(problem))), reference(evaluate<double>(inputs)) {
    const Problem& p = inputs.problem;
    outputs.output = rounded(p.effective_output_dtype(), reference.output);
    outputs.state_pool = rounded(p.state_dtype, reference.state_pool);
    outputs.conv_output = rounded(p.token_dtype, reference.conv_output);
    outputs.conv_state = rounded(p.state_dtype, reference.conv_state);
  }
  ErrorReport report() const { return compare(inputs, reference, outputs); }
  std::string violation() const {
    const ErrorReport result = report();
    return first_violation(result, result.limits);
  }

  Case inputs;
  WideOutputs<double> reference;
  Outputs outputs;
};

const char* const kRagged =
    "gated_delta:heads=1/3,dim=8x6,seq=1x70+1x0+1x90+1x5,gates=mid,h0=normal,slots=permuted,"
    "pool_pad=4";

TEST(Errors, RoundedReferencePassesAtOneFloor) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const Judged judged("gated_delta:heads=2/4,dim=32x32,seq=2x80,gates=mid,h0=normal,dtype=" +
                        std::string(dtype) + ",state=" + dtype);
    const ErrorReport report = judged.report();
    EXPECT_EQ(judged.violation(), "");
    EXPECT_EQ(report.checked_pairs, 8);
    EXPECT_EQ(report.total_pairs, 8);
    for (const HeadError& head : report.heads) {
      EXPECT_EQ(head.output.relative_l2, head.output.floor);
      EXPECT_DOUBLE_EQ(head.output.floor_ratio, 1);
      EXPECT_DOUBLE_EQ(head.state.floor_ratio, 1);
      // A full mantissa rounds with about 0.4 unit roundoffs.
      const double u = unit_roundoff(judged.inputs.problem.token_dtype);
      EXPECT_NEAR(head.output.floor / u, 0.41, 0.05) << dtype;
    }
  }
}

TEST(Errors, OneNaNIsCountedAndNeverPasses) {
  Judged judged(kRagged);
  judged.outputs.output[5] = kNan;  // sequence 0, token 0, head 0
  const ErrorReport report = judged.report();
  EXPECT_EQ(report.non_finite, 1);
  EXPECT_EQ(report.worst_output.output.non_finite, 1);
  EXPECT_EQ(report.worst_output.output.relative_l2, kInf);
  EXPECT_EQ(report.worst_output.where, (SequenceHead{0, 0}));
  EXPECT_EQ(report.positions[0].relative_l2, kInf);
  // No limit lets it pass, infinity included.
  EXPECT_NE(first_violation(report, {kInf, kInf, kInf}), "");
  EXPECT_NE(judged.violation().find("sequence 0, head 0"), std::string::npos);
}

TEST(Errors, AnErrorThatIsNaNIsWithinNoLimit) {
  TensorError error;
  EXPECT_TRUE(within(error, 0));
  error.relative_l2 = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(within(error, kInf));
}

TEST(Errors, AllNaNOutputsFail) {
  Judged judged(kRagged);
  std::fill(judged.outputs.output.begin(), judged.outputs.output.end(), kNan);
  EXPECT_EQ(judged.report().non_finite, static_cast<std::int64_t>(judged.outputs.output.size()));
  EXPECT_NE(judged.violation(), "");
}

TEST(Errors, NaNOrInfinityInTheStateFails) {
  for (float bad : {kNan, kInf, -kInf}) {
    Judged judged(kRagged);
    const auto row = static_cast<std::size_t>(judged.inputs.slot_index[2] *
                                              judged.inputs.problem.state_row_stride());
    judged.outputs.state_pool[row + 48] = bad;  // head 1
    const ErrorReport report = judged.report();
    EXPECT_EQ(report.non_finite, 1);
    EXPECT_EQ(report.worst_state.where, (SequenceHead{2, 1}));
    EXPECT_NE(judged.violation(), "");
  }
}

TEST(Errors, OneWrongElementInOneHeadIsFoundAndLocated) {
  Judged judged(kRagged);
  const std::size_t token = 70 + 83;  // sequence 2, token 83
  judged.outputs.output[(token * 3 + 2) * 6 + 4] += 0.01f;
  const ErrorReport report = judged.report();
  EXPECT_EQ(report.worst_output.where, (SequenceHead{2, 2}));
  EXPECT_GT(report.worst_output.output.relative_l2, 1e-4);
  int above = 0;
  for (const HeadError& head : report.heads) above += head.output.relative_l2 > 1e-6 ? 1 : 0;
  EXPECT_EQ(above, 1);
  ASSERT_EQ(report.positions.size(), 2u);
  EXPECT_LT(report.positions[0].relative_l2, 1e-6);
  EXPECT_EQ(report.positions[1].first_token, 64);
  EXPECT_EQ(report.positions[1].num_tokens, 90 - 64);
  EXPECT_GT(report.positions[1].relative_l2, 1e-4);
  EXPECT_NE(judged.violation().find("output of sequence 2, head 2"), std::string::npos)
      << judged.violation();
}

TEST(Errors, OneWrongStateElementIsFoundAndLocated) {
  Judged judged(kRagged);
  const auto row = static_cast<std::size_t>(judged.inputs.slot_index[3] *
                                            judged.inputs.problem.state_row_stride());
  judged.outputs.state_pool[row + 2 * 48 + 7] += 0.01f;
  EXPECT_EQ(judged.report().worst_state.where, (SequenceHead{3, 2}));
  EXPECT_NE(judged.violation().find("final_state of sequence 3, head 2"), std::string::npos);
}

TEST(Errors, MetricsAreWhatTheySay) {
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=1x2,gates=mid");
  const auto& r = judged.reference.output;
  double norm = 0;
  double largest = 0;
  for (double x : r) {
    norm += x * x;
    largest = std::max(largest, std::abs(x));
  }
  judged.outputs.output[3] = static_cast<float>(r[3] + 0.5);
  const TensorError error = judged.report().heads[0].output;
  EXPECT_NEAR(error.relative_l2, 0.5 / std::sqrt(norm), 1e-6);
  EXPECT_NEAR(error.scaled_max, 0.5 / largest, 1e-6);
  EXPECT_NEAR(error.floor_ratio, error.relative_l2 / std::max(error.floor, 0x1p-26), 1e-3);
}

TEST(Errors, ChangedUntouchedRowOrPaddingIsFound) {
  const Judged clean(kRagged);
  const auto stride = static_cast<std::size_t>(clean.inputs.problem.state_row_stride());
  const auto owned = static_cast<std::size_t>(clean.inputs.slot_index[0]) * stride;
  const auto empty = static_cast<std::size_t>(clean.inputs.slot_index[1]) * stride;
  std::size_t spare = 0;
  while (std::find(clean.inputs.slot_index.begin(), clean.inputs.slot_index.end(),
                   static_cast<std::int64_t>(spare)) != clean.inputs.slot_index.end()) {
    ++spare;
  }
  ASSERT_TRUE(std::isnan(clean.inputs.state_pool[owned + stride - 1]));
  for (std::size_t at : {owned + stride - 1, empty, empty + stride - 2, spare * stride + 11}) {
    Judged judged(kRagged);
    float& element = judged.outputs.state_pool[at];
    element = std::isnan(element) ? 0.0f : std::nextafter(element, 10.0f);
    EXPECT_EQ(judged.report().untouched_changed, 1) << at;
    EXPECT_NE(judged.violation(), "") << at;
  }
}

TEST(Errors, UntouchedIsComparedByBitPattern) {
  // NaN in unread rows is unchanged as long as its bits are; -0 in place of 0 is a change.
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=1x3+1x0,gates=mid");
  EXPECT_EQ(judged.report().untouched_changed, 0);
  judged.outputs.state_pool[16] = -kNan;
  EXPECT_EQ(judged.report().untouched_changed, 1);
  Judged zero("gated_delta:heads=1/1,dim=4x4,seq=1x3+1x0,gates=mid,h0=normal");
  zero.inputs.state_pool[16] = 0.0f;
  zero.outputs.state_pool[16] = -0.0f;
  EXPECT_EQ(zero.report().untouched_changed, 1);
}

TEST(Errors, NaNPaddingOfASixteenBitPoolIsUnchangedByAnHonestKernel) {
  for (const char* dtype : {"bf16", "f16"}) {
    const Judged judged("gated_delta:heads=1/1,dim=4x4,seq=1x3,gates=mid,pool_pad=2,state=" +
                        std::string(dtype));
    EXPECT_EQ(judged.report().untouched_changed, 0) << dtype;
  }
}

TEST(Errors, WithoutFinalStateThePoolMustBeBitIdentical) {
  Judged judged("gated_delta:heads=1/2,dim=4x4,seq=2x6,gates=mid,h0=normal,ht=0");
  EXPECT_EQ(judged.violation(), "");
  judged.outputs.state_pool[3] = std::nextafter(judged.outputs.state_pool[3], 10.0f);
  EXPECT_EQ(judged.report().untouched_changed, 1);
  EXPECT_NE(judged.violation(), "");
  judged.outputs.state_pool.clear();  // no pool was handed over at all
  EXPECT_EQ(judged.violation(), "");
}

TEST(Errors, NonzeroOutputOfAPaddingSequenceIsFound) {
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=4x3,gates=mid,h0=normal,slots=padding");
  judged.outputs.output[2 * 3 * 4] = -0.0f;
  EXPECT_EQ(judged.violation(), "");
  judged.outputs.output[2 * 3 * 4 + 1] = 1e-30f;
  EXPECT_EQ(judged.report().padding_nonzero, 1);
  EXPECT_NE(judged.violation(), "");
  judged.outputs.output[2 * 3 * 4 + 1] = kNan;
  EXPECT_EQ(judged.report().padding_nonzero, 1);
  EXPECT_EQ(judged.report().non_finite, 1);
}

TEST(Errors, ZeroReferenceIsMatchedByZerosOnly) {
  // beta = 0 and no initial state: outputs and state are exactly zero.
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=1x5,gates=mid,betas=zero");
  const TensorError zero = judged.report().heads[0].output;
  EXPECT_EQ(zero.relative_l2, 0);
  EXPECT_EQ(zero.floor_ratio, 0);
  EXPECT_EQ(judged.violation(), "");
  judged.outputs.output[7] = 1e-20f;
  EXPECT_EQ(judged.report().heads[0].output.relative_l2, kInf);
  EXPECT_EQ(judged.report().heads[0].output.non_finite, 0);
  EXPECT_NE(judged.violation(), "");
}

TEST(Errors, UnderflowIsJudgedAsAnAbsoluteError) {
  // A decay of 1e-12 a token and no update: the state passes float32's smallest number, and zeros
  // are as good as any float32 result.
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=1x8,gates=mid,betas=zero,h0=normal");
  std::fill(judged.inputs.gate.values.begin(), judged.inputs.gate.values.end(), -27.6f);
  judged.reference = evaluate<double>(judged.inputs);
  ASSERT_GT(std::abs(judged.reference.state_pool[0]), 0.0);
  judged.outputs.output = rounded(DType::float32, judged.reference.output);
  std::fill(judged.outputs.state_pool.begin(), judged.outputs.state_pool.end(), 0.0f);
  EXPECT_LT(judged.report().heads[0].state.relative_l2, 1e-20);
  EXPECT_EQ(judged.violation(), "");
}

TEST(Errors, OverflowOfTheStoredDtypeMustBeThatInfinity) {
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=1x3,gates=none,dtype=f16,betas=one");
  for (float& x : judged.inputs.value) x = 60000.0f;
  judged.inputs.problem.scale = 1000;
  judged.reference = evaluate<double>(judged.inputs);
  judged.outputs.output = rounded(DType::float16, judged.reference.output);
  judged.outputs.state_pool = rounded(DType::float32, judged.reference.state_pool);
  std::size_t overflowed = 0;
  while (!std::isinf(judged.outputs.output.at(overflowed))) ++overflowed;
  EXPECT_EQ(judged.violation(), "");
  for (float wrong : {-judged.outputs.output[overflowed], 65504.0f, kNan}) {
    Judged damaged = judged;
    damaged.outputs.output[overflowed] = wrong;
    EXPECT_EQ(damaged.report().non_finite, 1) << wrong;
    EXPECT_NE(damaged.violation(), "") << wrong;
  }
}

TEST(Errors, NothingPassesAgainstAReferenceThatIsNotFinite) {
  Judged judged("gated_delta:heads=1/1,dim=64x4,seq=1x100,gates=none,keys=unnormalised");
  for (float& x : judged.inputs.key) x *= 1000;  // the state grows by about 1e6 a token
  judged.reference = evaluate<double>(judged.inputs);
  judged.outputs.output = rounded(DType::float32, judged.reference.output);
  judged.outputs.state_pool = rounded(DType::float32, judged.reference.state_pool);
  EXPECT_GT(judged.report().reference_non_finite, 0);
  EXPECT_NE(judged.violation(), "");
}

TEST(Errors, ASampleIsJudgedOnItsPairsAlone) {
  Judged judged(kRagged);
  EvaluationOptions sample;
  sample.pairs = {{2, 1}, {0, 2}};
  judged.reference = evaluate<double>(judged.inputs, sample);
  judged.outputs.output[0] = kNan;  // sequence 0, head 0: not in the sample
  ErrorReport report = compare(judged.inputs, judged.reference, judged.outputs, sample);
  EXPECT_EQ(first_violation(report, report.limits), "");
  EXPECT_EQ(report.checked_pairs, 2);
  EXPECT_EQ(report.total_pairs, 12);
  EXPECT_EQ(report.heads[0].where, (SequenceHead{2, 1}));
  judged.outputs.output[2 * 6] = kNan;  // sequence 0, head 2
  report = compare(judged.inputs, judged.reference, judged.outputs, sample);
  EXPECT_EQ(report.non_finite, 1);
  // Judged as a whole against a sampled reference, what was never evaluated does not pass.
  report = compare(judged.inputs, judged.reference, judged.outputs);
  EXPECT_NE(first_violation(report, report.limits), "");
}

// Two sequences of one token, o = beta (q.k) v: q.k = 2 in the first, 0.01 in the second.
TEST(Errors, AReadoutThatCancelsWidensTheLimitOfItsOwnPairAlone) {
  Judged judged("gated_delta:heads=1/1,dim=2x4,seq=2x1");
  judged.inputs.query = {1, 1, 3, -2.99f};
  judged.inputs.key = {1, 1, 1, 1};
  judged.reference = evaluate<double>(judged.inputs);
  const auto wrong_in = [&](std::size_t sequence) {
    judged.outputs.output = rounded(DType::float32, judged.reference.output);
    judged.outputs.state_pool = rounded(DType::float32, judged.reference.state_pool);
    for (std::size_t i = 4 * sequence; i < 4 * (sequence + 1); ++i) {
      judged.outputs.output[i] *= 1.0001f;
    }
    return judged.violation();
  };
  EXPECT_EQ(wrong_in(1), "");
  EXPECT_NE(wrong_in(0).find("output of sequence 0, head 0"), std::string::npos) << wrong_in(0);
}

TEST(Errors, SixteenBitLimitsSeeAWrongHeadButNotRounding) {
  Judged judged("gated_delta:heads=2/4,dim=32x32,seq=1x80,gates=mid,dtype=bf16");
  for (float& x : judged.outputs.output) x = round_to(DType::bfloat16, x * (1 + 0x1p-8f));
  EXPECT_EQ(judged.violation(), "");  // one more rounding
  for (std::size_t t = 0; t < 80; ++t) judged.outputs.output[(t * 4 + 3) * 32] = 0;
  EXPECT_NE(judged.violation().find("head 3"), std::string::npos);
}

TEST(Errors, ConvolutionOutputsAndWindows) {
  const char* const problem =
      "causal_conv1d:heads=1/1,dim=4x4,seq=1x9+1x2+1x4,slots=padding,dtype=bf16,state=bf16";
  Judged judged(problem);
  EXPECT_EQ(judged.violation(), "");
  EXPECT_EQ(judged.report().checked_pairs, 3);
  EXPECT_DOUBLE_EQ(judged.report().conv_output.floor_ratio, 1);
  EXPECT_EQ(judged.report().conv_state.relative_l2, 0);  // copies of bfloat16 values

  Judged wrong = judged;
  wrong.outputs.conv_output[9 * 12 + 5] += 0.5f;
  EXPECT_EQ(wrong.report().worst_output.where, (SequenceHead{1, 0}));
  EXPECT_NE(wrong.violation().find("sequence 1"), std::string::npos);

  Judged padding = judged;
  padding.outputs.conv_output[11 * 12] = 1;
  EXPECT_EQ(padding.report().padding_nonzero, 1);

  for (std::int64_t row = 0; row < 6; ++row) {
    Judged window = judged;
    float& element = window.outputs.conv_state[static_cast<std::size_t>(row * 36 + 7)];
    element = round_to(DType::bfloat16, element * 1.01f);
    EXPECT_NE(window.violation(), "") << "row " << row;
    const bool owned = row == window.inputs.slot_index[0] || row == window.inputs.slot_index[1];
    EXPECT_EQ(window.report().untouched_changed, owned ? 0 : 1) << "row " << row;
  }
}

TEST(Errors, TimeLayoutPadsTheRightTokens) {
  Judged judged("causal_conv1d:heads=1/1,dim=4x4,seq=1x9+1x2+1x4,slots=padding,conv_layout=time");
  EXPECT_EQ(judged.violation(), "");
  judged.outputs.conv_output[11] = 1;  // channel 0, the first token of the padding sequence
  EXPECT_EQ(judged.report().padding_nonzero, 1);
}

TEST(Errors, LayersAreJudgedOnTheirConvolutionOnlyWhereTheyShowIt) {
  Judged judged("gated_delta_layer:heads=1/2,dim=8x4,seq=1x20,gates=mid,gate=logits,beta=logit");
  EXPECT_EQ(judged.violation(), "");
  const float right = judged.outputs.conv_output[3];
  for (float wrong : {kNan, right + 0.1f}) {
    judged.outputs.conv_output[3] = wrong;
    EXPECT_NE(judged.violation().find("conv_output"), std::string::npos) << wrong;
  }
  judged.outputs.conv_output.clear();
  EXPECT_EQ(judged.violation(), "");
  judged.outputs.conv_state[3] += 1;
  EXPECT_NE(judged.violation().find("conv_state"), std::string::npos);
}

TEST(Errors, OutputsOfTheWrongSizeAreBadInput) {
  Judged judged(kRagged);
  judged.outputs.output.pop_back();
  EXPECT_THROW(judged.report(), Error);
  Judged state(kRagged);
  state.outputs.state_pool.clear();
  EXPECT_THROW(state.report(), Error);
}

// The limits hold for what they were made from: a float32 evaluation of the recurrence itself.
TEST(Errors, Float32RecurrenceIsWithinTheLimits) {
  for (const char* options :
       {"gates=real", "gates=none,betas=two,keys=equal", "gates=reset,h0=large", "gates=tiny",
        "gates=near_one,betas=wide,keys=correlated,h0=large", "gates=strong,betas=one"}) {
    Judged judged(std::string("gated_delta:heads=1/2,dim=32x16,seq=1x512,") + options);
    const auto result = evaluate<float>(judged.inputs);
    judged.outputs.output = result.output;
    judged.outputs.state_pool = result.state_pool;
    EXPECT_EQ(judged.violation(), "") << options;
  }
}

}  // namespace
}  // namespace gdn::reference
