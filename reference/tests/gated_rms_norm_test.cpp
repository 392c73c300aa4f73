// The gated norm (contract 1.5) against values by hand and an independent formula in long double.
#include "interface/operations/gated_rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/operations/generate_case.h"
#include "reference/errors.h"
#include "reference/reference.h"

namespace gdn::reference::testing {
namespace {

Case drawn_norm(const std::string& problem) { return generate_case(Problem::parse(problem)); }

// y = x w gate sqrt(Dv / (sum of squares + Dv eps)), with a sigmoid that long double does not
// overflow for any z that is drawn.
std::vector<long double> norm_formula(const Case& c) {
  const Problem& p = c.problem;
  const auto width = static_cast<std::size_t>(p.value_head_dim);
  std::vector<long double> y;
  for (std::size_t row = 0; row < c["x"].size(); row += width) {
    long double squares = static_cast<long double>(width) * static_cast<long double>(p.norm_eps);
    for (std::size_t j = width; j-- > 0;) {
      squares += static_cast<long double>(c["x"][row + j]) * c["x"][row + j];
    }
    const long double scale = std::sqrt(static_cast<long double>(width) / squares);
    for (std::size_t j = 0; j < width; ++j) {
      const long double z = c["z"][row + j];
      const long double factor = p.norm_gate == NormGate::silu      ? z
                                 : p.norm_gate == NormGate::sigmoid ? 1.0L
                                                                    : 2.0L;
      y.push_back(scale * c["weight"][j] * factor / (1 + std::exp(-z)) * c["x"][row + j]);
    }
  }
  return y;
}

void expect_norm_formula(const std::string& problem) {
  SCOPED_TRACE(problem);
  const Case c = drawn_norm(problem);
  const auto y = evaluate<double>(c)["y"];
  const auto wanted = norm_formula(c);
  ASSERT_EQ(y.size(), wanted.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const long double error = std::abs(y[i] - wanted[i]);
    // Summed otherwise: sqrt(Dv) roundings of float64 and some.
    EXPECT_TRUE(error <= 2e-14L * std::abs(wanted[i])) << "element " << i << ": " << y[i];
  }
}

// One head, one token, Dv = 2, mean (9 + 16) / 2 = 12.5; eps = 3.5 makes the root 4.
Case norm_by_hand(const std::string& gate, float z) {
  Case c;
  c.problem = Problem::parse("gated_rms_norm:heads=1,dim=5x2,seq=1,norm_eps=3.5,norm_gate=" + gate);
  c.sequence_offsets = {0, 1};
  c["x"] = {3, -4};
  c["z"] = {z, z};
  c["weight"] = {2, 8};
  return c;
}

TEST(GatedRmsNorm, MatchesValuesWorkedOutByHand) {
  using Values = std::vector<double>;
  EXPECT_EQ(evaluate<double>(norm_by_hand("sigmoid", 0))["y"], (Values{0.75, -4}));
  EXPECT_EQ(evaluate<double>(norm_by_hand("sigmoid2", 0))["y"], (Values{1.5, -8}));
  EXPECT_EQ(evaluate<double>(norm_by_hand("silu", 0))["y"], (Values{0, -0.0}));
  // Where sigmoid is 1 to float64, and where exp overflows it.
  EXPECT_EQ(evaluate<double>(norm_by_hand("silu", 1000))["y"], (Values{1500, -8000}));
  EXPECT_EQ(evaluate<double>(norm_by_hand("sigmoid", -1000))["y"], (Values{0, -0.0}));
}

TEST(GatedRmsNorm, MatchesTheIndependentFormula) {
  for (const char* gate : {"silu", "sigmoid", "sigmoid2"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      expect_norm_formula("gated_rms_norm:heads=1/5,dim=8x20,seq=9+0+1+3,dtype=" +
                          std::string(dtype) + ",norm_gate=" + gate);
    }
  }
  expect_norm_formula("gated_rms_norm:heads=2/6,dim=64x1,seq=12,norm_eps=1e-5");
  expect_norm_formula("gated_rms_norm:heads=3/3,dim=8x512,seq=5,norm_eps=1e-30");
}

TEST(GatedRmsNorm, ARowOfZerosIsZeros) {
  Case c = norm_by_hand("silu", 3);
  c["x"] = {0, 0};
  EXPECT_EQ(evaluate<double>(c)["y"], (std::vector<double>{0, 0}));
}

TEST(GatedRmsNorm, EvaluatesTheSampledPairsAlone) {
  const Case c = drawn_norm("gated_rms_norm:heads=1/3,dim=4,seq=2+0+1");
  const auto all = evaluate<double>(c)["y"];
  EvaluationOptions options;
  options.pairs = {{0, 1}, {2, 2}};
  const auto some = evaluate<double>(c, options)["y"];
  ASSERT_EQ(some.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t token = i / 12, head = i / 4 % 3;
    const bool sampled = (token < 2 && head == 1) || (token == 2 && head == 2);
    if (sampled) {
      EXPECT_EQ(some[i], all[i]) << i;
    } else {
      EXPECT_TRUE(std::isnan(some[i])) << i;
    }
  }
}

// The largest rows must not leave float32 as they are squared, and no y the token type: an overflow
// of the inputs' making would hide what an implementation does.
TEST(GatedRmsNorm, GeneratedInputsStayWithinTheirTypes) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    const Case c =
        drawn_norm("gated_rms_norm:heads=1/8,dim=1x4096,seq=5+3,dtype=" + std::string(dtype));
    const auto reference = evaluate<double>(c);
    const auto y = evaluate<float>(c)["y"];
    Outputs outputs;
    for (const float value : y) {
      outputs["y"].push_back(round_to(c.problem.token_dtype, value));
      EXPECT_TRUE(std::isfinite(outputs["y"].back())) << c.problem.to_string();
    }
    const ErrorReport report = compare(c, reference, outputs);
    EXPECT_EQ(violation(report, report.limits), "") << c.problem.to_string();
  }
}

}  // namespace
}  // namespace gdn::reference::testing
