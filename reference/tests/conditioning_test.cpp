// The measures behind the limits of ill-conditioned problems, where they are known in closed form.
#include "reference/conditioning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/operations/generate_case.h"
#include "reference/errors.h"

namespace gdn::reference {
namespace {

Conditioning measure(const Case& c) { return measure_conditioning(c, evaluate<double>(c)); }
Conditioning measure(const std::string& problem) {
  return measure(generate_case(Problem::parse(problem)));
}
double largest_readout(const Case& c) {
  const std::vector<double> readouts = measure(c).readouts;
  return *std::max_element(readouts.begin(), readouts.end());
}
OutputLimit limit(const Case& c, const char* output) {
  return limit_of(error_limits(c.problem, measure(c)), output);
}
// Of the output of a pair with the problem's conditioning and this readout.
double output_limit(const Case& c, double readout) { return limit(c, "output").of(readout); }

TEST(Conditioning, GrowthOfTheInverseForEqualKeysInClosedForm) {
  // beta = 1: L is all ones below the diagonal, its inverse bidiagonal (1, -1): rows of 1, 2, 2,
  // ...
  const char* const one =
      "gated_delta:heads=1/1,dim=32x4,seq=1x48,gates=none,betas=one,keys=equal,chunk=16";
  EXPECT_NEAR(measure(one).inverse_growth, 2 - 1.0 / 16, 1e-5);
  // beta = 2: twos below the diagonal, and in the inverse (with alternating signs): rows 1, 3, 5,
  // ...
  const char* const two =
      "gated_delta:heads=1/1,dim=32x4,seq=1x48,gates=none,betas=two,keys=equal,chunk=16";
  EXPECT_NEAR(measure(two).inverse_growth, 16, 1e-3);
}

TEST(Conditioning, CancellationForEqualKeysInClosedForm) {
  // Equal keys, beta = 1: the updates are v_1, v_2 - v_1, v_3 - v_2, and they add up to v_3.
  Case c = generate_case(
      Problem::parse("gated_delta:heads=1/1,dim=32x1,seq=1x3,gates=none,betas=one,keys=equal"));
  c["v"] = {4, -3, 2};
  EXPECT_NEAR(measure(c).cancellation, std::sqrt(16.0 + 49 + 25) / 2, 1e-5);
  // A decay of 1/2 before the last token halves the earlier updates, and the last one is against
  // half of the state: v_1 / 2, (v_2 - v_1) / 2, v_3 - v_2 / 2.
  c["log_decay"][2] = std::log(0.5f);
  EXPECT_NEAR(measure(c).cancellation, std::sqrt(4 + 12.25 + 12.25) / 2, 1e-5);
}

TEST(Conditioning, NothingCouplesWithoutUpdates) {
  const auto c = measure("gated_delta:heads=1/1,dim=8x4,seq=1x48,gates=none,betas=zero");
  EXPECT_EQ(c.inverse_growth, 1);
  EXPECT_EQ(c.cancellation, 1);
}

TEST(Conditioning, RandomUnitKeysAreWellConditioned) {
  const auto c = measure("gated_delta:heads=2/4,dim=128x16,seq=1x256,gates=real");
  EXPECT_GT(c.inverse_growth, 1);
  EXPECT_LT(c.inverse_growth, 3);
  EXPECT_LT(c.cancellation, 1.3);
}

TEST(Conditioning, DecayBetweenTheTokensCounts) {
  Case c = generate_case(
      Problem::parse("gated_delta:heads=1/1,dim=32x4,seq=1x2,gates=none,betas=one,keys=equal"));
  c["log_decay"] = {-7.0f, std::log(0.25f)};
  // L = [1, 0; 1/4, 1], so L^-1 = [1, 0; -1/4, 1]. The first token's decay is outside.
  EXPECT_NEAR(measure(c).inverse_growth, (1 + 1.25) / 2, 1e-5);
}

TEST(Conditioning, DecaysPerChannelWeighTheChannels) {
  Case c = generate_case(
      Problem::parse("gated_delta:heads=1/1,dim=2x4,seq=1x2,gates=none,betas=one,decay=channel"));
  c["k"] = {0.6f, 0.8f, 0.6f, 0.8f};
  c["log_decay"] = {-7.0f, -9.0f, std::log(0.5f), std::log(0.25f)};
  // L = [1, 0; 0.36 / 2 + 0.64 / 4, 1].
  EXPECT_NEAR(measure(c).inverse_growth, (1 + 1 + 0.34) / 2, 1e-6);
}

TEST(Conditioning, EqualChannelDecaysMeasureAsOneDecayPerHead) {
  const std::string base = "gated_delta:heads=1/2,dim=8x4,seq=1x100,gates=mid,betas=wide";
  const Case per_head = generate_case(Problem::parse(base));
  Case per_channel = generate_case(Problem::parse(base + ",decay=channel"));
  for (std::size_t i = 0; i < per_channel["log_decay"].size(); ++i) {
    per_channel["log_decay"][i] = per_head["log_decay"][i / 8];
  }
  const Conditioning a = measure(per_head), b = measure(per_channel);
  // Of infinity every number would be near enough.
  ASSERT_TRUE(std::isfinite(a.inverse_growth + a.cancellation + a.memory_tokens));
  EXPECT_NEAR(a.inverse_growth, b.inverse_growth, 1e-12 * a.inverse_growth);
  EXPECT_NEAR(a.cancellation, b.cancellation, 1e-12 * a.cancellation);
  EXPECT_NEAR(a.memory_tokens, b.memory_tokens, 1e-12 * a.memory_tokens);
  EXPECT_NEAR(a.chunk_log_decay, b.chunk_log_decay, 1e-12 * a.chunk_log_decay);
}

TEST(Conditioning, StepsAreRowsOfTheSystem) {
  // Equal keys, beta = 2, no decay: rows of the inverse 1, 3, 5, ... over 16 rows, 8 tokens of 2.
  const auto c = measure(
      "gated_delta:heads=1/1,dim=32x4,seq=1x24,gates=none,betas=two,keys=equal,chunk=16,steps=2");
  EXPECT_NEAR(c.inverse_growth, 16, 1e-3);
  EXPECT_EQ(c.memory_tokens, 48);
  // Chunks hold whole tokens: 15 rows of 16 with three steps.
  EXPECT_NEAR(measure("gated_delta:heads=1/1,dim=32x4,seq=1x20,gates=none,betas=two,keys=equal,"
                      "chunk=16,steps=3")
                  .inverse_growth,
              15, 1e-3);
}

TEST(Conditioning, TheAdditiveUpdateDoesNotCouple) {
  const auto c = measure(
      "gated_delta:heads=1/1,dim=32x4,seq=1x48,gates=none,betas=two,keys=equal,update=additive");
  EXPECT_EQ(c.inverse_growth, 1);
  // Values that cancel do so in the state: 4 - 3 against 5 (and the third is zero).
  Case two = generate_case(Problem::parse(
      "gated_delta:heads=1/1,dim=32x1,seq=1x3,gates=none,betas=one,keys=equal,update=additive"));
  two["v"] = {4, -3, 0};
  EXPECT_NEAR(measure(two).cancellation, 5, 1e-5);
}

TEST(Conditioning, OverflowIsTheWorstThereIs) {
  Case c = generate_case(
      Problem::parse("gated_delta:heads=1/1,dim=64x4,seq=1x64,gates=none,keys=unnormalised"));
  for (float& x : c["k"]) x *= 1e6f;
  EXPECT_TRUE(std::isinf(measure(c).inverse_growth));
  EXPECT_EQ(limit(c, "output").relative_l2, 0.1);
  // Of the inverse alone: nothing is written, so that no update overflows.
  std::fill(c["v"].begin(), c["v"].end(), 0.0f);
  EXPECT_TRUE(std::isinf(measure(c).inverse_growth));
  // Of the updates alone: nine keys of 1e19 make an inverse of 1e304, which a float64 still holds.
  c = generate_case(Problem::parse(
      "gated_delta:heads=1/1,dim=4x4,seq=1x9,gates=none,betas=one,keys=unnormalised"));
  std::fill(c["k"].begin(), c["k"].end(), 0.0f);
  for (std::size_t token = 0; token < 9; ++token) c["k"][4 * token] = 1e19f;
  std::fill(c["v"].begin(), c["v"].end(), 1.0f);
  EXPECT_NEAR(std::log10(measure(c).inverse_growth), 303, 1);
  std::fill(c["v"].begin(), c["v"].end(), 1e30f);
  EXPECT_TRUE(std::isinf(measure(c).inverse_growth));
}

TEST(Conditioning, ReadoutOfOneTokenIsTheCancellationInItsDotProduct) {
  // o = beta (q.k) v, a sum of the products q_d k_d: here 3 * 1 - 2 * 1.
  Case c = generate_case(Problem::parse("gated_delta:heads=1/1,dim=2x3,seq=1x1"));
  c["q"] = {3, -2};
  c["k"] = {1, 1};
  EXPECT_NEAR(largest_readout(c), std::sqrt(9.0 + 4.0), 1e-6);
  EXPECT_GT(limit(c, "final_state").relative_l2, 0);
  c["q"] = {1, -1};  // q.k = 0: no digit of the output is more than its roundings
  EXPECT_EQ(output_limit(c, largest_readout(c)), 0.1);
  EXPECT_EQ(limit(c, "final_state").relative_l2,
            limit_of(error_limits(c.problem), "final_state").relative_l2);
}

// So many tokens that leave a state of k = 0 and 1 (in each column of V) as it is, but for a decay
// of e^g in all, and read 3 S_1 - 2 S_2.
Case reading_only(int tokens, double g, std::vector<float> state) {
  Case c = generate_case(Problem::parse("gated_delta:heads=1/1,dim=2x3,seq=1x" +
                                        std::to_string(tokens) + ",h0=normal,layout=vk"));
  c["q"].clear();
  for (int t = 0; t < tokens; ++t) c["q"].insert(c["q"].end(), {3, -2});
  std::fill(c["beta"].begin(), c["beta"].end(), 0.0f);
  std::fill(c["log_decay"].begin(), c["log_decay"].end(), static_cast<float>(g / tokens));
  c["initial_state"] = std::move(state);
  return c;
}

TEST(Conditioning, ReadoutOfAStateIsTheCancellationInItsColumns) {
  for (double g : {0.0, -0.5, -8.0}) {
    EXPECT_NEAR(largest_readout(reading_only(1, g, {1, 0, 1, 0, 1, 0})), 1, 1e-6) << g;
    // 6 - 6 in two columns, 6 - 5.8 in the third.
    const Case c = reading_only(1, g, {2, 3, 2, 3, 2, 2.9f});
    EXPECT_NEAR(largest_readout(c), std::sqrt(5 * 36 + 5.8 * 5.8) / 0.2, 0.1) << g;
    EXPECT_GT(output_limit(c, largest_readout(c)), 5 * output_limit(c, 1)) << g;
  }
}

TEST(Conditioning, ReadoutOfATokenThatForgetsTheStateIsThatOfAFirstToken) {
  Case c = reading_only(1, -100, {2, 3, 2, 3, 2, 3});
  c["k"] = {1, 1};
  c["beta"] = {1};
  EXPECT_NEAR(largest_readout(c), std::sqrt(9.0 + 4.0), 1e-6);
}

TEST(Conditioning, ReadoutOfOrdinaryDecodingWidensNoLimit) {
  const Case c = generate_case(
      Problem::parse("gated_delta:heads=4/8,dim=128,seq=8x1,h0=normal,slots=permuted"));
  EXPECT_LT(largest_readout(c), 2);
  EXPECT_LT(output_limit(c, largest_readout(c)), 1.1 * output_limit(c, 1));
}

// More pairs than triangular systems are looked at; one of them cancels.
TEST(Conditioning, ReadoutIsThatOfEveryShortSequence) {
  Case c = generate_case(Problem::parse("gated_delta:heads=1/1,dim=2x3,seq=600x1"));
  std::fill(c["q"].begin(), c["q"].end(), 1.0f);
  std::fill(c["k"].begin(), c["k"].end(), 1.0f);
  c["q"][2 * 599] = 3;
  c["q"][2 * 599 + 1] = -2;
  const std::vector<double> readouts = measure(c).readouts;
  ASSERT_EQ(readouts.size(), 600u);
  EXPECT_EQ(std::count(readouts.begin(), readouts.end(), 1.0), 599);
  EXPECT_NEAR(readouts.back(), std::sqrt(9.0 + 4.0), 1e-6);
}

TEST(Conditioning, ReadoutIsLeftAloneWhereThereAreManyTokens) {
  const std::vector<float> cancelling = {2, 3, 2, 3, 2, 2.9f};
  EXPECT_GT(largest_readout(reading_only(32, 0, cancelling)), 10);
  EXPECT_EQ(largest_readout(reading_only(33, 0, cancelling)), 1);
}

TEST(Conditioning, MemoryOfAGeometricDecay) {
  EXPECT_EQ(measure("gated_delta:heads=1/1,dim=4x4,seq=1x100+1x30,gates=none").memory_tokens, 100);
  Case c = generate_case(Problem::parse("gated_delta:heads=1/1,dim=4x4,seq=1x100,gates=none"));
  std::fill(c["log_decay"].begin(), c["log_decay"].end(), 0.5f * std::log(0.5f));
  EXPECT_NEAR(measure(c).memory_tokens, 2, 1e-5);  // 1 + 1/2 + 1/4 + ...
}

TEST(Conditioning, CumulatedLogDecayStartsAgainInEveryChunkAndClampsResets) {
  Case c =
      generate_case(Problem::parse("gated_delta:heads=1/1,dim=4x4,seq=1x8,gates=none,chunk=4"));
  c["log_decay"] = {0, -std::numeric_limits<float>::infinity(), -1, 0, -2, 0, 0, 0};
  // exp(g) G of the eight tokens: 0, 0 (a full reset), 105/e, 105; 2/e^2, 2, 2, 2.
  const auto rms = [](std::initializer_list<double> values) {
    double squares = 0;
    for (double x : values) squares += x * x;
    return std::sqrt(squares / 8);
  };
  const double e = std::exp(1.0);
  EXPECT_NEAR(measure(c).chunk_log_decay, rms({105 / e, 105, 2 / (e * e), 2, 2, 2}), 1e-5);
  c["log_decay"][1] = 0;
  EXPECT_NEAR(measure(c).chunk_log_decay, rms({1 / e, 1, 2 / (e * e), 2, 2, 2}), 1e-5);
}

TEST(Conditioning, LayersAreMeasuredOnWhatTheirConvolutionMakes) {
  // Equal key channels (8..15) at every token and a convolution of its last tap alone: equal keys;
  // value channels (16..19) growing as 1, 2, 3, 4 after the activation is left out.
  for (const char* layout : {"channels", "time"}) {
    Case c = generate_case(Problem::parse(
        std::string("gated_delta_layer:heads=1/1,dim=8x4,seq=1x4,gates=none,betas=one,act=none,"
                    "conv_layout=") +
        layout));
    const bool by_time = c.problem.conv_layout == ConvLayout::time;
    for (std::size_t t = 0; t < 4; ++t) {
      for (std::size_t channel = 8; channel < 20; ++channel) {
        c["qkv"][by_time ? channel * 4 + t : t * 20 + channel] =
            channel < 16 ? static_cast<float>(channel) : static_cast<float>(t + 1);
      }
    }
    for (std::size_t i = 0; i < c["conv_weight"].size(); ++i) {
      c["conv_weight"][i] = i % 4 == 3 ? 1.0f : 0.0f;
    }
    EXPECT_NEAR(measure(c).inverse_growth, 2 - 1.0 / 4, 1e-5) << layout;
    // Updates 1, 1, 1, 1 add up to 4: no cancellation, rather the reverse, which counts as none.
    EXPECT_EQ(measure(c).cancellation, 1) << layout;
    for (std::size_t channel = 16; channel < 20; ++channel) {
      c["qkv"][by_time ? channel * 4 + 3 : 3 * 20 + channel] = 0.5f;
    }
    EXPECT_NEAR(measure(c).cancellation, std::sqrt(3 + 2.5 * 2.5) / 0.5, 1e-4) << layout;
  }
}

}  // namespace
}  // namespace gdn::reference
