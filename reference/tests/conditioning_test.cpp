// The measures behind the limits of ill-conditioned problems, where they are known in closed form.
#include "reference/conditioning.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/inputs.h"
#include "reference/errors.h"

namespace gdn::reference {
namespace {

Conditioning measure(const Case& c) { return measure_conditioning(c, evaluate<double>(c)); }
Conditioning measure(const std::string& problem) {
  return measure(generate_case(Problem::parse(problem)));
}

TEST(Conditioning, EqualKeysInClosedForm) {
  // beta = 1: L is all ones below the diagonal, its inverse bidiagonal (1, -1). Row i of |L^-1| |L|
  // 1 is (i + 1) + i, 2C - 1 in the last.
  EXPECT_NEAR(measure("gated_delta:heads=1/1,dim=32x4,seq=1x48,gates=none,betas=one,keys=equal,"
                      "chunk=16")
                  .chunk_solve,
              2 * 16 - 1, 1e-4);
  // beta = 2: twos below the diagonal, and in the inverse (with alternating signs). The last row is
  // (2C - 1) + 2 sum_{j < C} (2j - 1) = 2C - 1 + 2 (C - 1)^2.
  EXPECT_NEAR(measure("gated_delta:heads=1/1,dim=32x4,seq=1x48,gates=none,betas=two,keys=equal,"
                      "chunk=16")
                  .chunk_solve,
              2 * 16 - 1 + 2 * 15 * 15, 1e-2);
}

TEST(Conditioning, NothingCouplesWithoutUpdates) {
  EXPECT_EQ(measure("gated_delta:heads=1/1,dim=8x4,seq=1x48,gates=none,betas=zero").chunk_solve, 1);
}

TEST(Conditioning, RandomUnitKeysAreWellConditioned) {
  const auto c = measure("gated_delta:heads=2/4,dim=128x16,seq=1x256,gates=real");
  EXPECT_GT(c.chunk_solve, 1);
  EXPECT_LT(c.chunk_solve, 10);
}

TEST(Conditioning, DecayBetweenTheTokensCounts) {
  Case c = generate_case(
      Problem::parse("gated_delta:heads=1/1,dim=32x4,seq=1x2,gates=none,betas=one,keys=equal"));
  c.gate.values = {-7.0f, std::log(0.25f)};
  // L = [1, 0; 1/4, 1]: the last row of |L^-1| |L| 1 is 1/4 + 5/4. The first token's decay is
  // outside.
  EXPECT_NEAR(measure(c).chunk_solve, 1.5, 1e-5);
}

TEST(Conditioning, MemoryOfAGeometricDecay) {
  EXPECT_EQ(measure("gated_delta:heads=1/1,dim=4x4,seq=1x100+1x30,gates=none").memory_tokens, 100);
  Case c = generate_case(Problem::parse("gated_delta:heads=1/1,dim=4x4,seq=1x100,gates=none"));
  std::fill(c.gate.values.begin(), c.gate.values.end(), 0.5f * std::log(0.5f));
  EXPECT_NEAR(measure(c).memory_tokens, 2, 1e-5);  // 1 + 1/2 + 1/4 + ...
}

TEST(Conditioning, CumulatedLogDecayStartsAgainInEveryChunkAndClampsResets) {
  Case c =
      generate_case(Problem::parse("gated_delta:heads=1/1,dim=4x4,seq=1x8,gates=none,chunk=4"));
  c.gate.values = {0, -std::numeric_limits<float>::infinity(), -1, 0, -2, 0, 0, 0};
  EXPECT_NEAR(measure(c).chunk_log_decay, 105, 1e-5);  // 104 + 1, then a token without decay
  c.gate.values[1] = 0;
  EXPECT_NEAR(measure(c).chunk_log_decay, 2, 1e-5);
}

TEST(Conditioning, LayersAreMeasuredOnTheKeysOfTheirConvolution) {
  // Equal key channels (8..15) at every token and a convolution of its last tap alone: equal keys.
  Case c = generate_case(
      Problem::parse("gated_delta_layer:heads=1/1,dim=8x4,seq=1x16,gates=none,betas=one,chunk=16"));
  for (std::size_t i = 0; i < c.qkv.size(); ++i) {
    if (i % 20 >= 8 && i % 20 < 16) c.qkv[i] = c.qkv[i % 20];
  }
  for (std::size_t i = 0; i < c.conv_weight.size(); ++i)
    c.conv_weight[i] = i % 4 == 3 ? 1.0f : 0.0f;
  EXPECT_NEAR(measure(c).chunk_solve, 31, 1e-3);
}

TEST(ErrorLimits, WellConditionedLimitsPerDtype) {
  const auto limit = [](const char* options) {
    return error_limits(
        Problem::parse(std::string("gated_delta:heads=1/1,dim=4x4,seq=1x4,") + options));
  };
  EXPECT_NEAR(limit("dtype=f32").output, 3e-6, 1e-7);
  EXPECT_NEAR(limit("dtype=bf16").output, 1e-2, 1e-3);
  EXPECT_NEAR(limit("dtype=f16").output, 1.5e-3, 1e-4);
  EXPECT_NEAR(limit("dtype=f32,state=bf16").state, 3e-6 + 0x1p-8, 1e-6);
  EXPECT_EQ(limit("dtype=bf16,out=f32").output, limit("dtype=bf16").output);
}

TEST(ErrorLimits, GrowWithConditioningUpToOneTenth) {
  const Problem problem = Problem::parse("gated_delta:heads=1/1,dim=4x4,seq=1x4");
  const double base = error_limits(problem).output;
  double last = base;
  for (double kappa : {5.0, 100.0, 1e4, 1e9, std::numeric_limits<double>::infinity()}) {
    const double limit = error_limits(problem, {kappa, 1, 0}).output;
    EXPECT_GE(limit, last);
    EXPECT_LE(limit, 0.1);
    last = limit;
  }
  EXPECT_EQ(last, 0.1);
  EXPECT_GT(error_limits(problem, {1, 1e6, 0}).output, base);
  EXPECT_GT(error_limits(problem, {1, 1, 300}).output, base);
}

}  // namespace
}  // namespace gdn::reference
