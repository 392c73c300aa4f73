// The limits themselves: a result just inside one passes, one just outside fails, and each is the
// number that recurrence_limits.cpp and limits.h derive, written out here. A limit that came loose
// would pass what it is there to refuse.
#include "reference/limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "harness/operations/generate_case.h"
#include "interface/batch_part.h"
#include "reference/errors.h"
#include "reference/operation.h"

namespace gdn::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Unit roundoffs, and the limits of well-conditioned problems in closed form.
constexpr double kF32 = 0x1p-24;
constexpr double kBf16 = 0x1p-8;
constexpr double kF16 = 0x1p-11;
constexpr double kRecurrenceF32 = 50 * kF32;       // 2.98e-6
constexpr double kRecurrenceBf16 = 1.0047571e-2;   // hypot(1e-2, u / 4)
constexpr double kRecurrenceF16 = 1.5049588e-3;    // hypot(1.5e-3, u / 4)
constexpr double kConvolutionF32 = 17 * kF32;      // 1.01e-6
constexpr double kConvolutionBf16 = 3.9072037e-3;  // 16 u of float32, one of its own
constexpr double kConvolutionF16 = 4.8923492e-4;

// How close to a limit a result is put, relatively: nearer than one roundoff in the fifty of
// float32, further than float32 rounds such a result.
constexpr double kNear = 1e-2;

Conditioning with(double Conditioning::*measure, double value) {
  Conditioning conditioning;
  conditioning.*measure = value;
  return conditioning;
}

// A case and a reference of it that its element types hold exactly: nothing but what is put there
// is wrong, and no rounding floor stands beside a limit.
struct Exact {
  explicit Exact(const std::string& problem)
      : inputs(generate_case(Problem::parse(problem))), reference(evaluate<double>(inputs)) {
    for (auto& [name, values] : reference) {
      const DType dtype = operand(name).dtype(inputs.problem);
      for (double& x : values) x = round_to(dtype, static_cast<float>(x));
    }
  }
  const Operand& operand(const std::string& output) const {
    return *inputs.problem.operation->find_output(output);
  }
  // Outputs that are the reference, but for one unit of `output`: wrong by exactly `error` of its
  // norm.
  Outputs wrong_by(double error, const std::string& output, const BatchPart& unit) const {
    Outputs outputs;
    for (const auto& [name, values] : reference) outputs[name].assign(values.begin(), values.end());
    strips_of(operand(output), inputs, unit).for_each([&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      outputs[output][at] = static_cast<float>(reference[output][at] * (1 + error));
    });
    return outputs;
  }
  ErrorReport report(const Outputs& outputs, const Conditioning& conditioning = {}) const {
    return compare(inputs, reference, outputs, conditioning, {});
  }
  // The last unit: of sequence 2, and of the last head where the output is judged by head.
  BatchPart last_unit(const std::string& output) const {
    const bool by_head = operand(output).judging.per == JudgedPer::head;
    return {2, by_head ? inputs.problem.num_value_heads - 1 : BatchPart::kEveryHead};
  }

  Case inputs;
  Arrays<double> reference;
};

// The limit of one output is `expected`: results around it pass and fail.
void expect_limit(const Exact& exact, const std::string& output, double expected,
                  const Conditioning& conditioning = {}) {
  SCOPED_TRACE(exact.inputs.problem.to_string() + ": limit of " + output + ", expected " +
               std::to_string(expected));
  const BatchPart unit = exact.last_unit(output);
  const ErrorReport inside =
      exact.report(exact.wrong_by(expected * (1 - kNear), output, unit), conditioning);
  EXPECT_EQ(violation(inside, inside.limits), "");
  const ErrorReport outside =
      exact.report(exact.wrong_by(expected * (1 + kNear), output, unit), conditioning);
  EXPECT_EQ(violation(outside, outside.limits).rfind(output + " of sequence 2", 0), 0u)
      << "'" << violation(outside, outside.limits) << "'";
}

struct OfDtype {
  std::string fields;
  double recurrence;
  double convolution;
};
const std::vector<OfDtype> kDtypes = {{"dtype=f32", kRecurrenceF32, kConvolutionF32},
                                      {"dtype=bf16", kRecurrenceBf16, kConvolutionBf16},
                                      {"dtype=f16", kRecurrenceF16, kConvolutionF16}};
struct OfState {
  std::string fields;
  double rounding;
};
const std::vector<OfState> kStates = {
    {"state=f32", kF32}, {"state=bf16", kBf16}, {"state=f16", kF16}};

// What is left at its default here, or named in kOptions, moves no limit.
const char* const kBatch = ":heads=1/3,dim=8x6,seq=1x20+1x0+1x9,";

TEST(ErrorLimits, OfTheGatedDeltaRule) {
  for (const OfDtype& dtype : kDtypes) {
    for (const OfState& state : kStates) {
      const Exact exact("gated_delta" + std::string(kBatch) + "gates=mid,h0=normal," +
                        dtype.fields + "," + state.fields);
      expect_limit(exact, "output", dtype.recurrence);
      expect_limit(exact, "final_state", dtype.recurrence + state.rounding);
    }
  }
}

TEST(ErrorLimits, AreThoseOfEveryOption) {
  for (const OfDtype& dtype : kDtypes) {
    for (const char* options :
         {"out=f32", "layout=vk", "slots=permuted,pool_pad=4", "norm=1", "scale=3", "h0=normal",
          "gate=logits,beta=logit", "gates=reset", "update=additive", "steps=3", "decay=channel",
          "update=additive,steps=2,decay=channel", "chunk=16"}) {
      const Exact exact("gated_delta" + std::string(kBatch) + dtype.fields + "," + options);
      expect_limit(exact, "output", dtype.recurrence);
      expect_limit(exact, "final_state", dtype.recurrence + kF32);
    }
  }
}

TEST(ErrorLimits, OfALayerAreTwiceThoseOfTheRule) {
  for (const OfDtype& dtype : kDtypes) {
    for (const char* options : {"state=f32", "h0=normal,bias=1,conv_layout=time",
                                "update=additive,decay=channel,gate=logits,beta=logit"}) {
      const Exact exact("gated_delta_layer" + std::string(kBatch) + dtype.fields + "," + options);
      expect_limit(exact, "output", 2 * dtype.recurrence);
      expect_limit(exact, "final_state", 2 * dtype.recurrence + kF32);
      expect_limit(exact, "conv_output", dtype.convolution);
    }
  }
}

TEST(ErrorLimits, OfTheConvolution) {
  for (const OfDtype& dtype : kDtypes) {
    for (const char* options : {"act=silu", "act=none", "bias=1", "width=2", "width=15",
                                "conv_layout=time", "conv_in_place=0", "slots=permuted"}) {
      const Exact exact("causal_conv1d" + std::string(kBatch) + dtype.fields + "," + options);
      expect_limit(exact, "conv_output", dtype.convolution);
    }
  }
}

// A window is a copy: what its element type makes of the inputs, and not one unit in the last place
// more.
TEST(ErrorLimits, OfAWindowIsItsRounding) {
  for (const char* operation : {"causal_conv1d", "gated_delta_layer"}) {
    for (const OfDtype& dtype : kDtypes) {
      for (const OfState& state : kStates) {
        const Case inputs = generate_case(
            Problem::parse(operation + std::string(kBatch) + dtype.fields + "," + state.fields));
        SCOPED_TRACE(inputs.problem.to_string());
        const Arrays<double> reference = evaluate<double>(inputs);
        Outputs outputs;
        for (const auto& [name, values] : reference) {
          const DType stored = inputs.problem.operation->find_output(name)->dtype(inputs.problem);
          for (const double x : values) {
            outputs[name].push_back(round_to(stored, static_cast<float>(x)));
          }
        }
        const ErrorReport rounded = compare(inputs, reference, outputs);
        EXPECT_EQ(violation(rounded, rounded.limits), "");
        // An element of the last sequence's window, one unit in the last place further out.
        float& element = outputs["conv_state"].back();
        ASSERT_NE(element, 0.0f);
        element *= static_cast<float>(1 + 2 * unit_roundoff(inputs.problem.state_dtype));
        const ErrorReport wrong = compare(inputs, reference, outputs);
        EXPECT_EQ(violation(wrong, wrong.limits).rfind("conv_state of sequence 2:", 0), 0u)
            << violation(wrong, wrong.limits);
      }
    }
  }
}

// Each measure of conditioning alone, in unit roundoffs: u max(50, sqrt((2 sqrt M)^2 + (8 G)^2 +
// (4 E^2 sqrt N)^2 + (12 (X - 1))^2)) in float32, of which one is at least 2, 0, 4 and 0.
TEST(ErrorLimits, GrowAsTheConditioningSaysInFloat32) {
  const Exact exact("gated_delta" + std::string(kBatch) + "dtype=f32");
  struct Expected {
    Conditioning conditioning;
    double roundoffs;
  };
  Conditioning both = with(&Conditioning::inverse_growth, 5);  // in sixteen chunks of 16 together
  both.memory_tokens = 256;
  both.chunk = 16;
  for (const auto& [conditioning, roundoffs] : std::vector<Expected>{
           {with(&Conditioning::memory_tokens, 64), 50},           // 16, and 4 in one chunk
           {with(&Conditioning::memory_tokens, 6400), 164.9242},   // 160, and 4 in each of 100
           {with(&Conditioning::chunk_log_decay, 5), 50},          // 40
           {with(&Conditioning::chunk_log_decay, 100), 800.0125},  // 800
           {with(&Conditioning::inverse_growth, 3), 50},           // 36
           {with(&Conditioning::inverse_growth, 10), 400.005},     // 400
           {with(&Conditioning::cancellation, 4), 50},             // 36
           {with(&Conditioning::cancellation, 21), 240.0416},      // 240
           {both, 401.2780}}) {                                    // 400, and 32 of the memory
    expect_limit(exact, "output", roundoffs * kF32, conditioning);
    expect_limit(exact, "final_state", (roundoffs + 1) * kF32, conditioning);
  }
}

// In 16 bits: sqrt(b^2 + u^2 ((E sqrt N / 4)^2 + (X - 1)^2)); log decays and memory alone are no
// part of it.
TEST(ErrorLimits, GrowAsTheConditioningSaysInSixteenBits) {
  const Exact bf16("gated_delta" + std::string(kBatch) + "dtype=bf16");
  const Exact f16("gated_delta" + std::string(kBatch) + "dtype=f16");
  struct Expected {
    Conditioning conditioning;
    double of_bf16;
    double of_f16;
  };
  for (const auto& [conditioning, of_bf16, of_f16] : std::vector<Expected>{
           {with(&Conditioning::inverse_growth, 16), 1.855103e-2, 2.462661e-3},  // 4 u beside b
           {with(&Conditioning::cancellation, 4), 1.543641e-2, 2.100159e-3},     // 3 u, 0.25 u
           {with(&Conditioning::memory_tokens, 6400), 1.397739e-2,
            1.933938e-3},  // 2.5 u: sqrt N = 10
           {with(&Conditioning::chunk_log_decay, 100), kRecurrenceBf16, kRecurrenceF16}}) {
    expect_limit(bf16, "output", of_bf16, conditioning);
    expect_limit(bf16, "final_state", of_bf16 + kF32, conditioning);
    expect_limit(f16, "output", of_f16, conditioning);
    expect_limit(f16, "final_state", of_f16 + kF32, conditioning);
  }
}

TEST(ErrorLimits, GrowWithEachMeasureUpToOneTenth) {
  for (const OfDtype& dtype : kDtypes) {
    const Problem problem = Problem::parse("gated_delta" + std::string(kBatch) + dtype.fields);
    for (double Conditioning::*measure :
         {&Conditioning::inverse_growth, &Conditioning::cancellation}) {
      double last = dtype.recurrence * (1 - 1e-6);
      for (double value : {1.0, 5.0, 100.0, 1e4, 1e9, kInfinity}) {
        const double limit =
            limit_of(error_limits(problem, with(measure, value)), "output").relative_l2;
        EXPECT_GE(limit, last) << dtype.fields;
        EXPECT_LE(limit, 0.1) << dtype.fields;
        last = limit;
      }
      EXPECT_EQ(last, 0.1) << dtype.fields;
    }
  }
}

TEST(ErrorLimits, EndAtOneTenth) {
  for (const OfDtype& dtype : kDtypes) {
    for (const char* operation : {"gated_delta", "gated_delta_layer"}) {
      const Exact exact(operation + std::string(kBatch) + dtype.fields);
      for (double Conditioning::*measure :
           {&Conditioning::inverse_growth, &Conditioning::cancellation}) {
        for (const double value : {1e6, 1e9, kInfinity}) {
          expect_limit(exact, "output", 0.1, with(measure, value));
          expect_limit(exact, "final_state", 0.1, with(measure, value));
        }
      }
    }
  }
}

// The output of one pair is as wide as its own readout R makes it, sqrt(limit^2 + (c u)^2 (R^2 -
// 1)), c = 10 in float32 and 2 in 16 bits, twice that in a layer; its neighbour's is not, and the
// final state's neither.
TEST(ErrorLimits, AReadoutWidensTheOutputOfItsOwnPairAlone) {
  struct Expected {
    std::string fields;
    double limit;
    double widened;  // by R^2 = 101
  };
  for (const Expected& of :
       std::vector<Expected>{{"dtype=f32", kRecurrenceF32, 111.80340 * kF32},  // hypot(50, 100)
                             {"dtype=bf16", kRecurrenceBf16, 7.876845e-2},     // hypot(limit, 20 u)
                             {"dtype=f16", kRecurrenceF16, 9.880917e-3}}) {
    for (const char* operation : {"gated_delta", "gated_delta_layer"}) {
      const Exact exact(operation + std::string(kBatch) + of.fields);
      const bool layer = operation == std::string("gated_delta_layer");
      const double factor = layer ? 2 : 1;
      Conditioning conditioning;
      conditioning.readouts = std::vector<double>(9, std::sqrt(101.0));
      expect_limit(exact, "output", std::min(0.1, factor * of.widened), conditioning);
      conditioning.readouts.back() = 1e9;
      expect_limit(exact, "output", 0.1, conditioning);
      conditioning.readouts.back() = 1;
      expect_limit(exact, "output", factor * of.limit, conditioning);
      conditioning.readouts.back() = 1e9;
      expect_limit(exact, "final_state", factor * of.limit + kF32, conditioning);
      if (layer) {
        expect_limit(exact, "conv_output",
                     of.fields == "dtype=f32"    ? kConvolutionF32
                     : of.fields == "dtype=bf16" ? kConvolutionBf16
                                                 : kConvolutionF16,
                     conditioning);
      }
    }
  }
}

// Where the stored type cannot hold the reference to the limit, four times what its rounding makes
// of that unit: values of a float16 pool near its smallest number, of which a float32 call could
// know more.
TEST(ErrorLimits, FourFloorsWhereTheTypeCannotHoldTheReference) {
  const Case inputs = generate_case(Problem::parse(
      "gated_delta:heads=1/1,dim=8x6,seq=1x20+1x0+1x9,gates=mid,h0=normal,dtype=f32,state=f16"));
  Arrays<double> reference = evaluate<double>(inputs);
  const std::size_t row = 8 * 6;
  for (std::size_t i = 2 * row; i < 3 * row; ++i) reference["final_state"][i] *= 1e-6;
  double rounding_squares = 0;
  double squares = 0;
  for (std::size_t i = 2 * row; i < 3 * row; ++i) {
    const double x = reference["final_state"][i];
    const double rounding = round_to(DType::float16, static_cast<float>(x)) - x;
    rounding_squares += rounding * rounding;
    squares += x * x;
  }
  const double floor = std::sqrt(rounding_squares / squares);
  ASSERT_GT(floor, 10 * (kRecurrenceF32 + kF16)) << "no values near the underflow";
  for (const double floors : {3.99, 4.01}) {
    Outputs outputs;
    for (const auto& [name, values] : reference) outputs[name].assign(values.begin(), values.end());
    for (std::size_t i = 2 * row; i < 3 * row; ++i) {
      outputs["final_state"][i] *= static_cast<float>(1 + floors * floor);
    }
    const ErrorReport report = compare(inputs, reference, outputs, Conditioning{}, {});
    EXPECT_NEAR(allowed(report["final_state"], report["final_state"].units[2], report.limits),
                4 * floor, 1e-9 * floor);
    // Its neighbour, whose values are of usual size, has its limit.
    EXPECT_NEAR(allowed(report["final_state"], report["final_state"].units[0], report.limits),
                std::max(kRecurrenceF32 + kF16, 4 * report["final_state"].units[0].error.floor),
                1e-12);
    if (floors < 4) {
      EXPECT_EQ(violation(report, report.limits), "");
    } else {
      EXPECT_EQ(violation(report, report.limits).rfind("final_state of sequence 2, head 0", 0), 0u)
          << violation(report, report.limits);
    }
  }
}

// A chain of calls rounds what it carries on the way: `roundings` of them, of which no more stand
// together than the problem remembers.
ErrorLimits widened(const std::string& problem, const Conditioning& conditioning,
                    double roundings) {
  const Problem p = Problem::parse(problem);
  ErrorLimits limits = error_limits(p, conditioning);
  reference_of(p.operation).widen(limits, p, conditioning, roundings);
  return limits;
}

void expect_near(const OutputLimit& limit, double relative_l2, double per_readout) {
  EXPECT_NEAR(limit.relative_l2, relative_l2, 1e-6 * relative_l2);
  EXPECT_NEAR(limit.per_readout, per_readout, 1e-6 * per_readout);
}

// What a readout of R adds is of R^2 - 1, and nothing below 1; a norm behind it multiplies both.
TEST(ErrorLimits, AReadoutOfRootTwoCancelsAsMuchAsItReads) {
  OutputLimit limit{3e-3, 4e-3};
  EXPECT_NEAR(limit.of(std::sqrt(2.0)), 5e-3, 1e-12);
  EXPECT_NEAR(limit.of(std::sqrt(5.0)), std::hypot(3e-3, 8e-3), 1e-12);
  for (const double readout : {0.0, 0.5, 1.0}) EXPECT_NEAR(limit.of(readout), 3e-3, 1e-12);
  EXPECT_NEAR(limit.of(std::sqrt(2.0), 3), 5e-3, 1e-12) << "no norm is behind it";
  limit.behind_norm = true;
  EXPECT_NEAR(limit.of(std::sqrt(2.0), 3), 15e-3, 1e-12);
}

TEST(ErrorLimits, ContinuationWidensThemByTheRoundingsThatStandTogether) {
  const std::string rule = "gated_delta" + std::string(kBatch);
  const Conditioning remembers_100 = with(&Conditioning::memory_tokens, 100);
  for (const auto& [state, u] : kStates) {
    SCOPED_TRACE(state);
    // One more rounding: twice as much of an output as of the state, and its readout's once.
    const ErrorLimits one = widened(rule + state, {}, 1);
    expect_near(limit_of(one, "output"), kRecurrenceF32 + 2 * u, 10 * kF32 + u);
    expect_near(limit_of(one, "final_state"), kRecurrenceF32 + u + u, 0);
    // Errors of independent roundings add as squares: sixteen are four of them.
    const ErrorLimits sixteen = widened(rule + state, remembers_100, 16);
    expect_near(limit_of(sixteen, "output"), kRecurrenceF32 + 8 * u, 10 * kF32 + 4 * u);
    expect_near(limit_of(sixteen, "final_state"), kRecurrenceF32 + u + 4 * u, 0);
    // A hundred stand together at most, however many there were.
    const ErrorLimits thousand = widened(rule + state, remembers_100, 1000);
    expect_near(limit_of(thousand, "output"), kRecurrenceF32 + 20 * u, 10 * kF32 + 10 * u);
    expect_near(limit_of(thousand, "final_state"), kRecurrenceF32 + u + 10 * u, 0);
    // At least one: what is forgotten at once was rounded all the same.
    const ErrorLimits forgetful = widened(rule + state, with(&Conditioning::memory_tokens, 0), 9);
    expect_near(limit_of(forgetful, "output"), kRecurrenceF32 + 2 * u, 10 * kF32 + u);
  }
  const ErrorLimits bf16 = widened(rule + "dtype=bf16,state=bf16", remembers_100, 4);
  EXPECT_NEAR(limit_of(bf16, "output").per_readout, 2 * kBf16 + 2 * kBf16, 1e-9);
}

// A gradient has products of two states that were rounded, that of the tokens before and that of the
// tokens behind, and each may cancel: four roundings, as often as calls' stand together.
TEST(ErrorLimits, ContinuationWidensGradientsByTheRoundingsThatStandTogether) {
  for (const auto& [state, u] : kStates) {
    const std::string problem = "gated_delta_backward" + std::string(kBatch) + state;
    SCOPED_TRACE(problem);
    const Problem p = Problem::parse(problem);
    const auto expect_widened = [&, u = u](double memory_tokens, double roundings, double times) {
      const Conditioning remembers = with(&Conditioning::memory_tokens, memory_tokens);
      const ErrorLimits before = error_limits(p, remembers);
      const ErrorLimits after = widened(problem, remembers, roundings);
      EXPECT_EQ(after.size(), before.size());
      for (const auto& [output, limit] : before) {
        SCOPED_TRACE(output);
        expect_near(limit_of(after, output), std::min(0.1, limit.relative_l2 + times * u), 0);
      }
    };
    expect_widened(100, 1, 4);
    expect_widened(100, 16, 16);
    expect_widened(100, 1000, 40);
    expect_widened(0, 9, 4);
    expect_widened(16384, 16383, 4 * std::sqrt(16383.0));  // with bfloat16 states one tenth
  }
}

// A 16-bit state that is rounded at every token of a long memory would be allowed any error: zeros
// are wrong by 1.
TEST(ErrorLimits, ContinuationEndsAtOneTenthToo) {
  Conditioning conditioning = with(&Conditioning::memory_tokens, 16384);
  conditioning.readouts = std::vector<double>(9, 1e9);
  for (const char* operation : {"gated_delta", "gated_delta_layer"}) {
    for (const auto& [state, u] : kStates) {
      const std::string problem = operation + std::string(kBatch) + "dtype=bf16," + state;
      SCOPED_TRACE(problem);
      const ErrorLimits limits = widened(problem, conditioning, 16383);
      for (const char* output : {"output", "final_state"}) {
        EXPECT_LE(limit_of(limits, output).relative_l2, 0.1) << output;
        EXPECT_LE(limit_of(limits, output).of(1e9), 0.1) << output;
      }
      if (u == kBf16) {
        EXPECT_EQ(limit_of(limits, "output").relative_l2, 0.1);
        EXPECT_EQ(limit_of(limits, "final_state").relative_l2, 0.1);
      }
    }
  }
}

// Windows hold tokens: only a narrower type than theirs rounds them.
TEST(ErrorLimits, ContinuationWidensConvolutionsWhereTheWindowIsNarrowerThanTheTokens) {
  for (const char* operation : {"causal_conv1d", "gated_delta_layer"}) {
    for (const OfDtype& dtype : kDtypes) {
      for (const auto& [state, u] : kStates) {
        const std::string problem = operation + std::string(kBatch) + dtype.fields + "," + state;
        SCOPED_TRACE(problem);
        const bool narrower = u > unit_roundoff(Problem::parse(problem).token_dtype);
        for (const double roundings : {1.0, 100.0}) {
          expect_near(limit_of(widened(problem, {}, roundings), "conv_output"),
                      dtype.convolution + (narrower ? 2 * u : 0), 0);
        }
      }
    }
  }
  // The layer's other outputs are widened as those of the rule.
  const ErrorLimits layer =
      widened("gated_delta_layer" + std::string(kBatch) + "state=bf16", {}, 1);
  expect_near(limit_of(layer, "output"), 2 * kRecurrenceF32 + 2 * kBf16, 20 * kF32 + kBf16);
  expect_near(limit_of(layer, "final_state"), 2 * kRecurrenceF32 + kBf16 + kBf16, 0);
}

TEST(ErrorLimits, AnOutputWithoutALimitMayNotBeWrong) {
  const OutputLimit none = limit_of(ErrorLimits{{"output", {1, 1}}}, "other");
  EXPECT_EQ(none.relative_l2, 0);
  EXPECT_EQ(none.of(100), 0);
}

}  // namespace
}  // namespace gdn::reference
