// The error analysis must see every fault it is there to see, and say where.
#include "reference/errors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/operations/generate_case.h"
#include "interface/channel_quantization.h"
#include "interface/error.h"
#include "interface/operations/gated_delta.h"

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
    round_reference();
  }
  void round_reference() {
    const Problem& p = inputs.problem;
    for (const auto& [name, values] : reference) {
      const Operand* output = p.operation->find_output(name);
      if (output != nullptr) outputs[name] = rounded(output->dtype(p), values);  // else their terms
    }
  }
  void evaluate_again() {
    reference = evaluate<double>(inputs);
    round_reference();
  }
  ErrorReport report() const { return compare(inputs, reference, outputs); }
  std::string violation() const {
    const ErrorReport result = report();
    return reference::violation(result, result.limits);
  }

  Case inputs;
  Arrays<double> reference;
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
    for (const char* name : {"output", "final_state"}) {
      SCOPED_TRACE(name);
      ASSERT_EQ(report[name].units.size(), 8u);
      EXPECT_TRUE(report[name].is_measured_in_floors);
      for (const UnitError& head : report[name].units) {
        EXPECT_EQ(head.error.relative_l2, head.error.floor);
        EXPECT_DOUBLE_EQ(head.error.floor_ratio, 1);
        // A full mantissa rounds with about 0.4 unit roundoffs.
        const double u = unit_roundoff(judged.inputs.problem.token_dtype);
        EXPECT_NEAR(head.error.floor / u, 0.41, 0.05) << dtype;
      }
    }
  }
}

TEST(Errors, OneNaNIsCountedAndNeverPasses) {
  Judged judged(kRagged);
  judged.outputs["output"][5] = kNan;  // sequence 0, token 0, head 0
  const ErrorReport report = judged.report();
  EXPECT_EQ(report.non_finite, 1);
  const UnitError& worst = report["output"].worst();
  EXPECT_EQ(worst.error.non_finite, 1);
  EXPECT_EQ(worst.error.relative_l2, kInf);
  EXPECT_EQ(worst.where, (BatchPart{0, 0}));
  EXPECT_EQ(report["output"].positions[0].relative_l2, kInf);
  // No limit lets it pass, infinity included.
  EXPECT_NE(violation(report, {{"output", {kInf, 0}}, {"final_state", {kInf, 0}}}), "");
  EXPECT_NE(judged.violation().find("sequence 0, head 0"), std::string::npos);
}

TEST(Errors, AnErrorThatIsNaNIsWithinNoLimit) {
  OutputErrors output;
  output.operand = gated_delta_operation().find_output("output");
  UnitError unit;
  EXPECT_TRUE(within(output, unit, {}));  // no error is within a limit of 0
  unit.error.relative_l2 = std::numeric_limits<double>::quiet_NaN();
  const ErrorLimits any = {{"output", {kInf, 0}}};
  EXPECT_FALSE(within(output, unit, any));
  ErrorReport report;
  output.units = {unit};
  report.outputs = {output};
  EXPECT_NE(violation(report, any), "");
}

TEST(Errors, AllNaNOutputsFail) {
  Judged judged(kRagged);
  std::vector<float>& output = judged.outputs["output"];
  std::fill(output.begin(), output.end(), kNan);
  EXPECT_EQ(judged.report().non_finite, static_cast<std::int64_t>(output.size()));
  EXPECT_NE(judged.violation(), "");
}

TEST(Errors, NaNOrInfinityInTheStateFails) {
  for (float bad : {kNan, kInf, -kInf}) {
    Judged judged(kRagged);
    const auto row = static_cast<std::size_t>(judged.inputs.slot_index[2] *
                                              judged.inputs.problem.state_row_stride());
    judged.outputs["final_state"][row + 48] = bad;  // head 1
    const ErrorReport report = judged.report();
    EXPECT_EQ(report.non_finite, 1);
    EXPECT_EQ(report["final_state"].worst().where, (BatchPart{2, 1}));
    EXPECT_NE(judged.violation(), "");
  }
}

TEST(Errors, OneWrongElementInOneHeadIsFoundAndLocated) {
  Judged judged(kRagged);
  const std::size_t token = 70 + 83;  // sequence 2, token 83
  judged.outputs["output"][(token * 3 + 2) * 6 + 4] += 0.01f;
  const ErrorReport report = judged.report();
  const OutputErrors& output = report["output"];
  EXPECT_EQ(output.worst().where, (BatchPart{2, 2}));
  EXPECT_GT(output.worst().error.relative_l2, 1e-4);
  int above = 0;
  for (const UnitError& head : output.units) above += head.error.relative_l2 > 1e-6 ? 1 : 0;
  EXPECT_EQ(above, 1);
  ASSERT_EQ(output.positions.size(), 2u);
  EXPECT_EQ(output.positions[0].first_token, 0);
  EXPECT_EQ(output.positions[0].num_tokens, 64);
  EXPECT_LT(output.positions[0].relative_l2, 1e-6);
  EXPECT_EQ(output.positions[1].first_token, 64);
  EXPECT_EQ(output.positions[1].num_tokens, 90 - 64);
  EXPECT_GT(output.positions[1].relative_l2, 1e-4);
  EXPECT_NE(judged.violation().find("output of sequence 2, head 2"), std::string::npos)
      << judged.violation();
}

TEST(Errors, OneWrongStateElementIsFoundAndLocated) {
  Judged judged(kRagged);
  const auto row = static_cast<std::size_t>(judged.inputs.slot_index[3] *
                                            judged.inputs.problem.state_row_stride());
  judged.outputs["final_state"][row + 2 * 48 + 7] += 0.01f;
  EXPECT_EQ(judged.report()["final_state"].worst().where, (BatchPart{3, 2}));
  EXPECT_NE(judged.violation().find("final_state of sequence 3, head 2"), std::string::npos);
}

// Not the first unit that is wrong, but the one that is furthest above what it may be: of one
// output or of two, whose limits differ.
TEST(Errors, TheUnitFurthestAboveItsLimitIsTheOneNamed) {
  Judged judged(kRagged);
  float& early = judged.outputs["output"][0];
  early += 0.001f;  // sequence 0, head 0
  judged.outputs["output"][(70 + 3) * 18 + 7] += 0.1f;
  EXPECT_NE(judged.violation().find("output of sequence 2, head 1"), std::string::npos)
      << judged.violation();
  early += 1.0f;
  EXPECT_NE(judged.violation().find("output of sequence 0, head 0"), std::string::npos)
      << judged.violation();
  const auto row = static_cast<std::size_t>(judged.inputs.slot_index[3] *
                                            judged.inputs.problem.state_row_stride());
  judged.outputs["final_state"][row] += 100.0f;
  EXPECT_NE(judged.violation().find("final_state of sequence 3, head 0"), std::string::npos)
      << judged.violation();
  early = kNan;  // worse than any number
  EXPECT_NE(judged.violation().find("output of sequence 0, head 0: 1 values not finite"),
            std::string::npos)
      << judged.violation();
}

TEST(Errors, MetricsAreWhatTheySay) {
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=1x2,gates=mid");
  const auto& r = judged.reference["output"];
  double norm = 0;
  double largest = 0;
  for (double x : r) {
    norm += x * x;
    largest = std::max(largest, std::abs(x));
  }
  judged.outputs["output"][3] = static_cast<float>(r[3] + 0.5);
  const TensorError error = judged.report()["output"].worst().error;
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
  ASSERT_TRUE(std::isnan(clean.inputs["initial_state"][owned + stride - 1]));
  for (std::size_t at : {owned + stride - 1, empty, empty + stride - 2, spare * stride + 11}) {
    Judged judged(kRagged);
    float& element = judged.outputs["final_state"][at];
    element = std::isnan(element) ? 0.0f : std::nextafter(element, 10.0f);
    EXPECT_EQ(judged.report().untouched_changed, 1) << at;
    EXPECT_NE(judged.violation(), "") << at;
  }
}

TEST(Errors, UntouchedIsComparedByBitPattern) {
  // NaN in unread rows is unchanged as long as its bits are; -0 in place of 0 is a change.
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=1x3+1x0,gates=mid");
  EXPECT_EQ(judged.report().untouched_changed, 0);
  judged.outputs["final_state"][16] = -kNan;
  EXPECT_EQ(judged.report().untouched_changed, 1);
  Judged zero("gated_delta:heads=1/1,dim=4x4,seq=1x3+1x0,gates=mid,h0=normal");
  zero.inputs["initial_state"][16] = 0.0f;
  zero.outputs["final_state"][16] = -0.0f;
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
  float& element = judged.outputs["final_state"][3];
  element = std::nextafter(element, 10.0f);
  EXPECT_EQ(judged.report().untouched_changed, 1);
  EXPECT_NE(judged.violation(), "");
  judged.outputs["final_state"].clear();  // no pool was handed over at all
  EXPECT_EQ(judged.violation(), "");
  judged.outputs.erase("final_state");
  EXPECT_EQ(judged.violation(), "");
  EXPECT_EQ(judged.report().find("final_state"), nullptr);
}

TEST(Errors, NonzeroOutputOfAPaddingSequenceIsFound) {
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=4x3,gates=mid,h0=normal,slots=padding");
  std::vector<float>& output = judged.outputs["output"];
  output[2 * 3 * 4] = -0.0f;
  EXPECT_EQ(judged.violation(), "");
  output[2 * 3 * 4 + 1] = 1e-30f;
  EXPECT_EQ(judged.report().padding_nonzero, 1);
  EXPECT_NE(judged.violation(), "");
  output[2 * 3 * 4 + 1] = kNan;
  EXPECT_EQ(judged.report().padding_nonzero, 1);
  EXPECT_EQ(judged.report().non_finite, 1);
}

TEST(Errors, ZeroReferenceIsMatchedByZerosOnly) {
  // beta = 0 and no initial state: outputs and state are exactly zero.
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=1x5,gates=mid,betas=zero");
  const TensorError zero = judged.report()["output"].worst().error;
  EXPECT_EQ(zero.relative_l2, 0);
  EXPECT_EQ(zero.floor_ratio, 0);
  EXPECT_EQ(judged.violation(), "");
  judged.outputs["output"][7] = 1e-20f;
  const TensorError wrong = judged.report()["output"].worst().error;
  EXPECT_EQ(wrong.relative_l2, kInf);
  EXPECT_EQ(wrong.non_finite, 0);
  EXPECT_NE(judged.violation(), "");
}

TEST(Errors, UnderflowIsJudgedAsAnAbsoluteError) {
  // A decay of 1e-12 a token and no update: the state passes float32's smallest number, and zeros
  // are as good as any float32 result.
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=1x8,gates=mid,betas=zero,h0=normal");
  std::vector<float>& log_decay = judged.inputs["log_decay"];
  std::fill(log_decay.begin(), log_decay.end(), -27.6f);
  judged.evaluate_again();
  ASSERT_GT(std::abs(judged.reference["final_state"][0]), 0.0);
  std::vector<float>& state = judged.outputs["final_state"];
  std::fill(state.begin(), state.end(), 0.0f);
  EXPECT_LT(judged.report()["final_state"].worst().error.relative_l2, 1e-20);
  EXPECT_EQ(judged.violation(), "");
}

TEST(Errors, AReferenceWhoseTermsVanishWhenSquaredIsNotZero) {
  // A gate of 1e-246: its square is 0 in float64, and so are the terms that gradients stand beside.
  Judged judged(
      "gated_rms_norm_backward:heads=1/1,dim=4x1,seq=1,norm_gate=sigmoid2,norm_eps=1e-05");
  judged.inputs["x"] = {0.78515625f};
  judged.inputs["z"] = {-568};
  judged.inputs["d_y"] = {-1.4296875f};
  judged.evaluate_again();
  ASSERT_GT(std::abs(judged.reference["d_x"][0]), 0.0);
  ASSERT_EQ(judged.reference["d_x_terms"][0], 0.0);
  ASSERT_EQ(judged.outputs["d_x"][0], 0.0f);
  EXPECT_EQ(judged.violation(), "");
  EXPECT_LT(judged.report()["d_x"].worst().error.scaled_max, 1e-20);
  judged.outputs["d_x"][0] = 1e-20f;
  EXPECT_NE(judged.violation(), "");
}

TEST(Errors, OverflowOfTheStoredDtypeMustBeThatInfinity) {
  Judged judged("gated_delta:heads=1/1,dim=4x4,seq=1x3,gates=none,dtype=f16,betas=one");
  for (float& x : judged.inputs["v"]) x = 60000.0f;
  judged.inputs.problem.scale = 1000;
  judged.evaluate_again();
  const std::vector<float> output = judged.outputs["output"];
  std::size_t overflowed = 0;
  while (!std::isinf(output.at(overflowed))) ++overflowed;
  EXPECT_EQ(judged.violation(), "");
  for (float wrong : {-output[overflowed], 65504.0f, kNan}) {
    Judged damaged = judged;
    damaged.outputs["output"][overflowed] = wrong;
    EXPECT_EQ(damaged.report().non_finite, 1) << wrong;
    EXPECT_NE(damaged.violation(), "") << wrong;
  }
}

TEST(Errors, NothingPassesAgainstAReferenceThatIsNotFinite) {
  Judged judged("gated_delta:heads=1/1,dim=64x4,seq=1x100,gates=none,keys=unnormalised");
  for (float& x : judged.inputs["k"]) x *= 1000;  // the state grows by about 1e6 a token
  judged.evaluate_again();
  EXPECT_GT(judged.report().reference_non_finite, 0);
  EXPECT_NE(judged.violation(), "");
}

TEST(Errors, ASampleIsJudgedOnItsPairsAlone) {
  Judged judged(kRagged);
  EvaluationOptions sample;
  sample.pairs = {{2, 1}, {0, 2}};
  judged.reference = evaluate<double>(judged.inputs, sample);
  judged.outputs["output"][0] = kNan;  // sequence 0, head 0: not in the sample
  ErrorReport report = compare(judged.inputs, judged.reference, judged.outputs, sample);
  EXPECT_EQ(violation(report, report.limits), "");
  EXPECT_EQ(report.checked_pairs, 2);
  EXPECT_EQ(report.total_pairs, 12);
  EXPECT_EQ(report["output"].units[0].where, (BatchPart{2, 1}));
  EXPECT_EQ(report["final_state"].units[1].where, (BatchPart{0, 2}));
  judged.outputs["output"][2 * 6] = kNan;  // sequence 0, head 2
  report = compare(judged.inputs, judged.reference, judged.outputs, sample);
  EXPECT_EQ(report.non_finite, 1);
  // Judged as a whole against a sampled reference, what was never evaluated does not pass.
  report = compare(judged.inputs, judged.reference, judged.outputs);
  EXPECT_NE(violation(report, report.limits), "");
}

// The convolution of a layer is judged by sequence, whose number is not that of the sampled pairs.
TEST(Errors, ASampleOfALayerIsCountedInPairs) {
  Judged judged("gated_delta_layer:heads=1/2,dim=4x4,seq=5x3,gates=mid");
  EXPECT_EQ(judged.report().checked_pairs, 10);
  EvaluationOptions sample;
  sample.pairs = {{4, 1}, {0, 0}};
  judged.reference = evaluate<double>(judged.inputs, sample);
  const ErrorReport report = compare(judged.inputs, judged.reference, judged.outputs, sample);
  EXPECT_EQ(violation(report, report.limits), "");
  EXPECT_EQ(report.checked_pairs, 2);
  EXPECT_EQ(report.total_pairs, 10);
  EXPECT_EQ(report["output"].units.size(), 2u);
  EXPECT_EQ(report["conv_output"].units.size(), 5u);
}

// Two sequences of one token, o = beta (q.k) v: q.k = 2 in the first, 0.01 in the second.
TEST(Errors, AReadoutThatCancelsWidensTheLimitOfItsOwnPairAlone) {
  Judged judged("gated_delta:heads=1/1,dim=2x4,seq=2x1");
  judged.inputs["q"] = {1, 1, 3, -2.99f};
  judged.inputs["k"] = {1, 1, 1, 1};
  judged.evaluate_again();
  const auto wrong_in = [&](std::size_t sequence) {
    Judged wrong = judged;
    for (std::size_t i = 4 * sequence; i < 4 * (sequence + 1); ++i) {
      wrong.outputs["output"][i] *= 1.0001f;
    }
    return wrong.violation();
  };
  EXPECT_EQ(wrong_in(1), "");
  EXPECT_NE(wrong_in(0).find("output of sequence 0, head 0"), std::string::npos) << wrong_in(0);
}

TEST(Errors, SixteenBitLimitsSeeAWrongHeadButNotRounding) {
  Judged judged("gated_delta:heads=2/4,dim=32x32,seq=1x80,gates=mid,dtype=bf16");
  std::vector<float>& output = judged.outputs["output"];
  for (float& x : output) x = round_to(DType::bfloat16, x * (1 + 0x1p-8f));
  EXPECT_EQ(judged.violation(), "");  // one more rounding
  for (std::size_t t = 0; t < 80; ++t) output[(t * 4 + 3) * 32] = 0;
  EXPECT_NE(judged.violation().find("head 3"), std::string::npos);
}

TEST(Errors, ConvolutionOutputsAndWindows) {
  const char* const problem =
      "causal_conv1d:heads=1/1,dim=4x4,seq=1x9+1x2+1x4,slots=padding,dtype=bf16,state=bf16";
  Judged judged(problem);
  EXPECT_EQ(judged.violation(), "");
  const ErrorReport clean = judged.report();
  EXPECT_EQ(clean.checked_pairs, 3);
  EXPECT_EQ(clean.total_pairs, 3);
  ASSERT_EQ(clean["conv_output"].units.size(), 3u);
  for (const std::size_t n : {0, 1}) {
    EXPECT_EQ(clean["conv_output"].units[n].where, (BatchPart{static_cast<std::int64_t>(n)}));
    EXPECT_DOUBLE_EQ(clean["conv_output"].units[n].error.floor_ratio, 1);
  }
  EXPECT_EQ(clean["conv_output"].units[2].error.relative_l2, 0);  // padding: zeros
  EXPECT_EQ(clean["conv_state"].worst().error.relative_l2, 0);    // copies of bfloat16 values

  Judged wrong = judged;
  wrong.outputs["conv_output"][9 * 12 + 5] += 0.5f;
  EXPECT_EQ(wrong.report()["conv_output"].worst().where, (BatchPart{1}));
  EXPECT_NE(wrong.violation().find("conv_output of sequence 1:"), std::string::npos)
      << wrong.violation();

  Judged padding = judged;
  padding.outputs["conv_output"][11 * 12] = 1;
  EXPECT_EQ(padding.report().padding_nonzero, 1);

  for (std::int64_t row = 0; row < 6; ++row) {
    Judged window = judged;
    float& element = window.outputs["conv_state"][static_cast<std::size_t>(row * 36 + 7)];
    element = round_to(DType::bfloat16, element * 1.01f);
    EXPECT_NE(window.violation(), "") << "row " << row;
    const bool owned = row == window.inputs.slot_index[0] || row == window.inputs.slot_index[1];
    EXPECT_EQ(window.report().untouched_changed, owned ? 0 : 1) << "row " << row;
  }
}

// A short sequence wrong by five times its limit, beside a long one that would hide it in a mean.
TEST(Errors, ConvolutionsAreJudgedBySequence) {
  for (const char* options : {"causal_conv1d:", "gated_delta_layer:gates=mid,"}) {
    for (const char* layout : {"channels", "time"}) {
      Judged judged(std::string(options) +
                    "heads=1/1,dim=4x4,seq=1x2000+1x2,conv_layout=" + layout);
      SCOPED_TRACE(judged.inputs.problem.to_string());
      const Operand& output = *judged.inputs.problem.operation->find_output("conv_output");
      const double limit = limit_of(judged.report().limits, "conv_output").relative_l2;
      strips_of(output, judged.inputs, {1}).for_each([&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        judged.outputs["conv_output"][at] =
            static_cast<float>(judged.reference["conv_output"][at] * (1 + 5 * limit));
      });
      EXPECT_NE(judged.violation().find("conv_output of sequence 1:"), std::string::npos)
          << judged.violation();
    }
  }
}

TEST(Errors, TimeLayoutPadsTheRightTokens) {
  Judged judged("causal_conv1d:heads=1/1,dim=4x4,seq=1x9+1x2+1x4,slots=padding,conv_layout=time");
  EXPECT_EQ(judged.violation(), "");
  judged.outputs["conv_output"][11] = 1;  // channel 0, the first token of the padding sequence
  EXPECT_EQ(judged.report().padding_nonzero, 1);
}

TEST(Errors, LayersAreJudgedOnTheirConvolutionOnlyWhereTheyShowIt) {
  Judged judged("gated_delta_layer:heads=1/2,dim=8x4,seq=1x20,gates=mid,gate=logits,beta=logit");
  EXPECT_EQ(judged.violation(), "");
  const float right = judged.outputs["conv_output"][3];
  for (float wrong : {kNan, right + 0.1f}) {
    judged.outputs["conv_output"][3] = wrong;
    EXPECT_NE(judged.violation().find("conv_output"), std::string::npos) << wrong;
  }
  judged.outputs["conv_output"].clear();
  EXPECT_EQ(judged.violation(), "");
  judged.outputs.erase("conv_output");
  EXPECT_EQ(judged.violation(), "");
  EXPECT_EQ(judged.report().find("conv_output"), nullptr);
  judged.outputs["conv_state"][3] += 1;
  EXPECT_NE(judged.violation().find("conv_state"), std::string::npos);
}

TEST(Errors, OutputsOfTheWrongSizeAreBadInput) {
  const auto refusal = [](const std::string& problem, const auto& damage) -> std::string {
    Judged judged(problem);
    damage(judged.outputs);
    try {
      judged.report();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.what();
    }
    return "accepted";
  };
  for (const char* problem :
       {kRagged, "causal_conv1d:heads=1/1,dim=4x4,seq=1x9+1x2",
        "gated_delta_layer:heads=1/2,dim=8x4,seq=1x20,gates=mid,gate=logits,beta=logit"}) {
    const Problem parsed = Problem::parse(problem);
    for (const Operand& operand : parsed.operation->operands) {
      if (!operand.is_output() || operand.hand_over.between_steps) continue;
      if (!is_present(operand, parsed)) continue;
      const std::string& name = operand.output_name();
      SCOPED_TRACE(std::string(problem) + " " + name);
      // One element too few, and none at all, or no array.
      EXPECT_EQ(refusal(problem, [&](Outputs& o) { o[name].pop_back(); }).find(name + ":"), 0u);
      if (operand.hand_over.on_request) continue;
      EXPECT_EQ(refusal(problem, [&](Outputs& o) { o[name].clear(); }).find(name + ":"), 0u);
      EXPECT_EQ(refusal(problem, [&](Outputs& o) { o.erase(name); }).find(name + ":"), 0u);
    }
  }
}

// The limits hold for what they were made from: a float32 evaluation of the recurrence itself.
TEST(Errors, Float32RecurrenceIsWithinTheLimits) {
  for (const char* options :
       {"gates=real", "gates=none,betas=two,keys=equal", "gates=reset,h0=large", "gates=tiny",
        "gates=near_one,betas=wide,keys=correlated,h0=large", "gates=strong,betas=one"}) {
    Judged judged(std::string("gated_delta:heads=1/2,dim=32x16,seq=1x512,") + options);
    const auto result = evaluate<float>(judged.inputs);
    judged.outputs = result;
    EXPECT_EQ(judged.violation(), "") << options;
  }
}

// ---- integers with scales

// Outputs are the reference rounded: elements to integers, scales to float32. Every checkpoint is wanted.
const char* const kScaled =
    "gated_delta:heads=1/"
    "2,dim=32x24,seq=1x40+1x30,gates=mid,h0=normal,checkpoints=2,checkpoint_dtype=i8,dtype=";

struct Scaled : Judged {
  explicit Scaled(const std::string& more) : Judged(kScaled + more) {}
  float& element(std::int64_t channel, std::int64_t i) {
    const ChannelLayout layout = channel_layout(*scaled_output(inputs.problem), inputs.problem);
    return outputs["checkpoint_states"][static_cast<std::size_t>(layout.place(channel, i))];
  }
  float& scale(std::int64_t channel) {
    return outputs["checkpoint_scales"][static_cast<std::size_t>(channel)];
  }
  // One that holds values.
  std::int64_t some_channel() {
    std::int64_t channel = 0;
    while (scale(channel) == 0) ++channel;
    return channel;
  }
  // A place of the channel whose element is not its largest, and not 0.
  std::int64_t some_place(std::int64_t channel) {
    std::int64_t i = 0;
    while (std::abs(element(channel, i)) > 100 || std::abs(element(channel, i)) < 2) ++i;
    return i;
  }
};

TEST(Errors, IntegersWithScalesAreJudgedAsTheirProducts) {
  for (const char* more : {"f32", "f32,layout=vk", "bf16", "bf16,layout=vk,slots=padding"}) {
    SCOPED_TRACE(more);
    Scaled judged(more);
    const ErrorReport report = judged.report();
    EXPECT_EQ(judged.violation(), "");
    const UnitError& worst = report["checkpoint_states"].worst();
    EXPECT_NEAR(worst.error.floor_ratio, 1, 0.05);
    EXPECT_GT(worst.error.floor, 1e-3);  // of integers, not of float32
    EXPECT_GT(worst.error.half_steps, worst.error.floor);
    EXPECT_LT(worst.error.half_steps, 2.5 * worst.error.floor);
    EXPECT_LT(worst.error.beyond_half_steps, 1e-6);
    EXPECT_LT(report["checkpoint_scales"].worst().error.relative_l2, 1e-6);
  }
}

TEST(Errors, AnElementThatIsAStepOffIsFound) {
  for (const float off : {-1.0f, 1.0f}) {
    Scaled judged("f32");
    const std::int64_t channel = judged.some_channel();
    judged.element(channel, judged.some_place(channel)) += off;
    EXPECT_NE(judged.violation().find("checkpoint_states"), std::string::npos);
    EXPECT_NE(judged.violation().find("beyond half a step"), std::string::npos);
  }
}

TEST(Errors, ElementsThatAreCutOffAndNotRoundedAreFound) {
  Scaled judged("f32,layout=vk");
  const std::vector<double>& exact = judged.reference["checkpoint_states"];
  for (std::size_t i = 0; i < exact.size(); ++i) {
    float& element = judged.outputs["checkpoint_states"][i];
    if (std::abs(element) != 127) element = static_cast<float>(std::trunc(exact[i]));
  }
  EXPECT_NE(judged.violation().find("checkpoint_states"), std::string::npos);
}

// Products that are right within their rounding, of another scale than the definition's: whatever the type of tokens.
TEST(Errors, AScaleThatElementsMakeUpForIsFound) {
  for (const char* dtype : {"f32", "bf16"}) {
    Scaled judged(dtype);
    const std::int64_t channel = judged.some_channel();
    judged.scale(channel) *= 2;
    for (std::int64_t i = 0; i < judged.inputs.problem.value_head_dim; ++i) {
      judged.element(channel, i) = std::nearbyint(judged.element(channel, i) / 2);
    }
    EXPECT_NE(judged.violation().find("1 channels whose largest element is not 127"),
              std::string::npos)
        << dtype;
    EXPECT_EQ(judged.report()["checkpoint_states"].worst().error.unfilled_channels, 1) << dtype;
  }
}

TEST(Errors, AScaleIsJudgedByItself) {
  Scaled judged("f32");
  judged.scale(judged.some_channel()) *= 1.001f;
  const ErrorReport report = judged.report();
  const OutputErrors& scales = report["checkpoint_scales"];
  EXPECT_FALSE(within(scales, scales.worst(), report.limits));
  EXPECT_NE(judged.violation(), "");
}

TEST(Errors, ScalesOfTheWrongChannelsAreFound) {
  for (const char* dtype : {"f32", "bf16"}) {
    Scaled judged(dtype);
    std::vector<float>& scales = judged.outputs["checkpoint_scales"];
    std::rotate(scales.begin(), scales.begin() + 1, scales.end());
    EXPECT_NE(judged.violation(), "") << dtype;
  }
}

TEST(Errors, AnElementThatNobodyWroteIsNotFinite) {
  Scaled judged("bf16");
  judged.element(judged.some_channel(), 3) = kNan;
  EXPECT_EQ(judged.report()["checkpoint_states"].worst().error.non_finite, 1);
  EXPECT_NE(judged.violation(), "");
}

// As an outputs file holds it: elements that are not rounded, which times their scales are the states.
TEST(Errors, TheReferenceItselfHasNoErrorBesideItsScales) {
  Scaled judged("f32");
  for (const char* name : {"checkpoint_states", "checkpoint_scales"}) {
    const std::vector<double>& exact = judged.reference[name];
    judged.outputs[name] = std::vector<float>(exact.begin(), exact.end());
  }
  EXPECT_LT(judged.report()["checkpoint_states"].worst().error.relative_l2, 1e-6);
  EXPECT_EQ(judged.violation(), "");
}

TEST(Errors, SampledIntegersWithScalesAreJudgedAlone) {
  Scaled judged("f32");
  EvaluationOptions options;
  options.pairs = {{1, 1}};
  judged.reference = evaluate<double>(judged.inputs, options);
  const ErrorReport report = compare(judged.inputs, judged.reference, judged.outputs, options);
  ASSERT_EQ(report["checkpoint_states"].units.size(), 1u);
  EXPECT_EQ(violation(report, report.limits), "");
}

}  // namespace
}  // namespace gdn::reference
