// The variants of the recurrence: against values worked out by hand, the dense formulation, and
// each other where one is a special case of another.
#include <gtest/gtest.h>

#include "harness/operations/generate_case.h"
#include "harness/operations/steps_to_tokens.h"
#include "reference/tests/dense_formulation.h"

namespace gdn::reference::testing {
namespace {

Case generate(const std::string& problem) { return generate_case(Problem::parse(problem)); }

const char* const kVariants[] = {
    "update=additive",
    "decay=channel",
    "steps=2",
    "steps=3",
    "update=additive,decay=channel",
    "update=additive,steps=2",
    "steps=2,decay=channel",
    "update=additive,steps=3,decay=channel",
};

TEST(Variants, AdditiveUpdateByHand) {
  // Dk = 2, Dv = 1: S0 = (1, 2); alpha = 1/2, k = (1, 3), v = 3, beta = 1/2, q = (1, 1), scale 2:
  // S = (1/2, 1) + 3/2 (1, 3) = (2, 5.5); o = 2 * 7.5 = 15.
  Case c;
  c.problem = Problem::parse(
      "gated_delta:heads=1/1,dim=2x1,seq=1x1,gate=decay,h0=normal,scale=2,update=additive");
  c.sequence_offsets = {0, 1};
  c["q"] = {1, 1};
  c["k"] = {1, 3};
  c["v"] = {3};
  c["decay"] = {0.5f};
  c["beta"] = {0.5f};
  c["initial_state"] = {1, 2};
  const auto result = evaluate<double>(c);
  EXPECT_EQ(result["output"], (std::vector<double>{15}));
  EXPECT_EQ(result["final_state"], (std::vector<double>{2, 5.5}));
}

TEST(Variants, TwoStepsAndADecayPerChannelByHand) {
  // S0 = (4, 8), alpha = (1/2, 1/4): S = (2, 2). Step 1: k = (1, 0), v = 3, beta = 1: r = 1, S =
  // (3, 2). Step 2: k = (0, 1), v = 6, beta = 1/2: r = 4, S = (3, 4). o = 1 * 3 + 2 * 4 = 11.
  Case c;
  c.problem = Problem::parse(
      "gated_delta:heads=1/1,dim=2x1,seq=1x1,gate=decay,h0=normal,scale=1,steps=2,decay=channel");
  c.sequence_offsets = {0, 1};
  c["q"] = {1, 2};
  c["k"] = {1, 0, 0, 1};
  c["v"] = {3, 6};
  c["decay"] = {0.5f, 0.25f};
  c["beta"] = {1.0f, 0.5f};
  c["initial_state"] = {4, 8};
  const auto result = evaluate<double>(c);
  EXPECT_EQ(result["output"], (std::vector<double>{11}));
  EXPECT_EQ(result["final_state"], (std::vector<double>{3, 4}));
}

TEST(Variants, AgreeWithTheDenseFormWithEveryOption) {
  for (const char* variant : kVariants) {
    for (const char* options :
         {"gates=mid,h0=normal", "gates=reset,h0=large,layout=vk", "gates=mid,betas=wide,norm=1",
          "gates=real,gate=logits,beta=logit", "gates=mid,gate=decay,slots=padding,h0=normal",
          "gates=mid,gate=neg_log_decay,dtype=bf16,state=f16,h0=normal"}) {
      const std::string text = "gated_delta:heads=2/4,dim=8x5,seq=1x9+1x0+1x5+1x2," +
                               std::string(options) + "," + variant;
      SCOPED_TRACE(text);
      const Case c = generate(text);
      const auto actual = evaluate<double>(c);
      const auto expected = dense_gated_delta(c);
      const double output = relative_difference(actual["output"], expected["output"]);
      const double state = relative_difference(actual["final_state"], expected["final_state"]);
      EXPECT_TRUE(output <= 1e-13) << output;
      EXPECT_TRUE(state <= 1e-13) << state;
    }
  }
}

TEST(Variants, EveryScalarIsTheSameRecurrence) {
  for (const char* variant : kVariants) {
    SCOPED_TRACE(variant);
    const Case c = generate("gated_delta:heads=1/2,dim=16x8,seq=1x40,gates=mid,h0=normal," +
                            std::string(variant));
    const auto wide = evaluate<long double>(c);
    EXPECT_LE(relative_difference(evaluate<double>(c)["output"], wide["output"]), 1e-15);
    EXPECT_LE(relative_difference(evaluate<float>(c)["output"], wide["output"]), 1e-6);
    EXPECT_GT(relative_difference(evaluate<float>(c)["output"], wide["output"]), 1e-9);
  }
}

// A variant taken for another would agree with nothing: they are visibly different.
TEST(Variants, DifferFromTheGatedDeltaRule) {
  const std::string base = "gated_delta:heads=1/1,dim=16x8,seq=1x40,gates=mid,h0=normal";
  const auto gated_delta = evaluate<double>(generate(base));
  for (const char* variant : {"update=additive", "decay=channel"}) {
    const auto other = evaluate<double>(generate(base + "," + variant));
    EXPECT_GT(relative_difference(other["output"], gated_delta["output"]), 0.1) << variant;
  }
}

TEST(Variants, EqualChannelDecaysAreOneDecayPerHead) {
  for (const char* update : {"delta", "additive"}) {
    const std::string base =
        "gated_delta:heads=1/2,dim=8x4,seq=1x30,gates=mid,h0=normal,update=" + std::string(update);
    const Case per_head = generate(base);
    Case per_channel = generate(base + ",decay=channel");
    for (std::size_t i = 0; i < per_channel["log_decay"].size(); ++i) {
      per_channel["log_decay"][i] = per_head["log_decay"][i / 8];
    }
    const auto by_channel = evaluate<double>(per_channel);
    const auto by_head = evaluate<double>(per_head);
    EXPECT_EQ(by_channel["output"], by_head["output"]);
    EXPECT_EQ(by_channel["final_state"], by_head["final_state"]);
  }
}

TEST(Variants, StepsAreTokensWithoutDecayOrReading) {
  for (const char* variant :
       {"steps=2", "steps=5", "steps=3,decay=channel", "steps=2,update=additive"}) {
    for (const char* gate : {"log_decay", "decay", "neg_log_decay", "logits", "bounded"}) {
      SCOPED_TRACE(std::string(variant) + " " + gate);
      const Case product = generate(
          "gated_delta:heads=1/2,dim=8x4,seq=1x12+1x0+1x7,h0=normal,gate=" + std::string(gate) +
          "," + variant);
      const auto native = evaluate<double>(product);
      const auto tokens = evaluate<double>(steps_as_tokens(product));
      Outputs narrow;
      narrow["output"].assign(tokens["output"].begin(), tokens["output"].end());
      const Outputs read = outputs_of_last_steps(product.problem, narrow);
      EXPECT_EQ(std::vector<float>(native["output"].begin(), native["output"].end()),
                read["output"]);
      EXPECT_EQ(native["final_state"], tokens["final_state"]);
    }
  }
}

TEST(Variants, AStepWithBetaZeroChangesNothing) {
  const Case one = generate("gated_delta:heads=1/1,dim=8x4,seq=1x12,gates=mid,h0=normal");
  Case two = generate("gated_delta:heads=1/1,dim=8x4,seq=1x12,gates=mid,h0=normal,steps=2");
  for (std::size_t t = 0; t < 12; ++t) {
    std::copy_n(one["k"].begin() + t * 8, 8, two["k"].begin() + (2 * t + t % 2) * 8);
    std::copy_n(one["v"].begin() + t * 4, 4, two["v"].begin() + (2 * t + t % 2) * 4);
    two["beta"][2 * t + t % 2] = one["beta"][t];
    two["beta"][2 * t + 1 - t % 2] = 0;
  }
  EXPECT_EQ(evaluate<double>(two)["output"], evaluate<double>(one)["output"]);
}

TEST(Variants, AResetOfOneChannelForgetsThatRowAlone) {
  Case c = generate(
      "gated_delta:heads=1/1,dim=4x3,seq=1x1,gates=mid,betas=zero,h0=normal,decay=channel");
  c["log_decay"] = {0, -std::numeric_limits<float>::infinity(), 0, 0};
  c["initial_state"][3] = std::numeric_limits<float>::max();
  const auto after = evaluate<double>(c)["final_state"];
  for (std::size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(after[i], i / 3 == 1 ? 0.0 : static_cast<double>(c["initial_state"][i])) << i;
  }
}

TEST(Variants, TheLayerTakesThem) {
  for (const char* variant : {"update=additive", "decay=channel"}) {
    const Case c = generate("gated_delta_layer:heads=1/2,dim=8x6,seq=1x20,gate=logits,beta=logit," +
                            std::string(variant));
    Case plain = c;
    plain.problem.update = UpdateRule::delta;
    plain.problem.decay = DecayPer::head;
    plain["decay_logit"].resize(40);
    plain["dt_bias"].resize(2);
    const auto variant_of_it = evaluate<double>(c);
    const auto gated_delta = evaluate<double>(plain);
    EXPECT_GT(relative_difference(variant_of_it["output"], gated_delta["output"]), 0.01);
    EXPECT_EQ(variant_of_it["conv_output"], gated_delta["conv_output"]);
  }
}

}  // namespace
}  // namespace gdn::reference::testing
