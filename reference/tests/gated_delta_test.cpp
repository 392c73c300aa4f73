// The token recurrence: against values worked out by hand, and option by option against the dense
// formulation of dense_formulation.h.
#include <gtest/gtest.h>

#include "harness/operations/generate_case.h"
#include "interface/error.h"
#include "reference/reference.h"
#include "reference/tests/dense_formulation.h"

namespace gdn::reference::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Case generate(const std::string& problem) { return generate_case(Problem::parse(problem)); }

void expect_agrees_with_dense_form(const Case& c) {
  SCOPED_TRACE(c.problem.to_string());
  const auto actual = evaluate<double>(c);
  const auto expected = dense_gated_delta(c);
  const double output = relative_difference(actual["output"], expected["output"]);
  const double state = relative_difference(actual["final_state"], expected["final_state"]);
  EXPECT_TRUE(output <= 1e-13) << output;
  EXPECT_TRUE(state <= 1e-13) << state;
}

Arrays<double> expect_agrees_with_dense_form(const std::string& problem) {
  const Case c = generate(problem);
  expect_agrees_with_dense_form(c);
  return evaluate<double>(c);
}

// Two tokens, Dk = 2, Dv = 1, worked out by hand:
//   S0 = (1, 2). Token 1: alpha = 1/2, k = (1, 0), v = 3, beta = 1/2, q = (1, 1).
//     S = (1/2, 1); r = 3 - 1/2 = 5/2; S = (1/2 + 5/4, 1) = (7/4, 1); o = 2 * 11/4 = 11/2.
//   Token 2: alpha = 1/4, k = (0.6, 0.8), v = 1, beta = 1, q = (0, 1).
//     S = (7/16, 1/4); S^T k = 0.2625 + 0.2 = 0.4625; r = 0.5375;
//     S = (0.4375 + 0.3225, 0.25 + 0.43) = (0.76, 0.68); o = 2 * 0.68 = 1.36.
Case hand_case() {
  Case c;
  c.problem = Problem::parse("gated_delta:heads=1/1,dim=2x1,seq=1x2,gate=decay,h0=normal,scale=2");
  c.sequence_offsets = {0, 2};
  c["q"] = {1, 1, 0, 1};
  c["k"] = {1, 0, 0.6f, 0.8f};
  c["v"] = {3, 1};
  c["decay"] = {0.5f, 0.25f};
  c["beta"] = {0.5f, 1.0f};
  c["initial_state"] = {1, 2};
  return c;
}

TEST(GatedDelta, MatchesValuesWorkedOutByHand) {
  const auto result = evaluate<double>(hand_case());
  EXPECT_DOUBLE_EQ(result["output"][0], 5.5);
  EXPECT_NEAR(result["output"][1], 1.36, 1e-7);  // 0.6f and 0.8f are rounded
  EXPECT_NEAR(result["final_state"][0], 0.76, 1e-7);
  EXPECT_NEAR(result["final_state"][1], 0.68, 1e-7);
}

TEST(GatedDelta, ReadsTheUpdatedStateAndDecaysBeforeTheUpdate) {
  // One token on a zero state: o = scale beta (k.q) v whatever the decay; the old state would give
  // 0.
  Case c = hand_case();
  c.problem = Problem::parse("gated_delta:heads=1/1,dim=2x1,seq=1x1,gate=decay,scale=1");
  c.sequence_offsets = {0, 1};
  c["q"].resize(2);
  c["k"].resize(2);
  c["v"].resize(1);
  c["decay"] = {0.25f};
  c["beta"] = {0.5f};
  c["initial_state"] = {kNan, kNan};
  EXPECT_DOUBLE_EQ(evaluate<double>(c)["output"][0], 0.5 * 1 * 3);
}

TEST(GatedDelta, AgreesWithTheDenseForm) {
  expect_agrees_with_dense_form("gated_delta:heads=1/1,dim=16x8,seq=1x40,gates=mid,h0=normal");
}

TEST(GatedDelta, EveryScalarIsTheSameRecurrence) {
  const Case c = generate("gated_delta:heads=1/2,dim=16x8,seq=1x40,gates=mid,h0=normal");
  const auto reference = evaluate<long double>(c);
  EXPECT_LE(relative_difference(evaluate<double>(c)["output"], reference["output"]), 1e-15);
  EXPECT_LE(relative_difference(evaluate<float>(c)["output"], reference["output"]), 1e-6);
  EXPECT_GT(relative_difference(evaluate<float>(c)["output"], reference["output"]), 1e-9);
}

TEST(GatedDelta, GroupedHeadMap) {
  expect_agrees_with_dense_form("gated_delta:heads=2/6,dim=8x8,seq=1x12+1x5,gates=mid");
}

TEST(GatedDelta, SequencesAreIndependent) {
  const Case three = generate("gated_delta:heads=1/2,dim=8x4,seq=3x7,gates=mid");
  const std::vector<double> batch = evaluate<double>(three)["output"];
  Case alone = three;
  alone.problem.sequences = SequenceLengths::parse("1x7");
  alone.sequence_offsets = {0, 7};
  const auto cut = [](std::vector<float>& v, std::size_t per_token) {
    v = std::vector<float>(v.begin() + 7 * per_token, v.begin() + 14 * per_token);
  };
  cut(alone["q"], 8);
  cut(alone["k"], 8);
  cut(alone["v"], 8);
  cut(alone["log_decay"], 2);
  cut(alone["beta"], 2);
  alone["initial_state"].resize(2 * 8 * 4);  // a row
  const std::vector<double> single = evaluate<double>(alone)["output"];
  EXPECT_EQ(single, std::vector<double>(batch.begin() + 7 * 8, batch.begin() + 14 * 8));
}

TEST(GatedDelta, StateLayoutVkIsTheTransposeOfKv) {
  Case kv = generate("gated_delta:heads=1/2,dim=6x4,seq=2x9,gates=mid,h0=normal,pool_pad=5");
  Case vk = kv;
  vk.problem.state_layout = StateLayout::vk;
  const auto transposed_at = [](std::size_t row, std::size_t head, std::size_t i, std::size_t j) {
    return row * 53 + head * 24 + j * 6 + i;
  };
  const auto at = [](std::size_t row, std::size_t head, std::size_t i, std::size_t j) {
    return row * 53 + head * 24 + i * 4 + j;
  };
  for (std::size_t x = 0; x < 2 * 2 * 6 * 4; ++x) {
    const std::size_t j = x % 4, i = x / 4 % 6, head = x / 24 % 2, row = x / 48;
    vk["initial_state"][transposed_at(row, head, i, j)] = kv["initial_state"][at(row, head, i, j)];
  }
  const auto a = evaluate<double>(kv);
  const auto b = evaluate<double>(vk);
  EXPECT_EQ(a["output"], b["output"]);
  for (std::size_t x = 0; x < 2 * 2 * 6 * 4; ++x) {
    const std::size_t j = x % 4, i = x / 4 % 6, head = x / 24 % 2, row = x / 48;
    ASSERT_EQ(b["final_state"][transposed_at(row, head, i, j)],
              a["final_state"][at(row, head, i, j)]);
  }
  expect_agrees_with_dense_form("gated_delta:heads=1/2,dim=6x4,seq=1x9,layout=vk,h0=normal");
}

TEST(GatedDelta, SlotsReadAndWriteTheirOwnPoolRowsOnly) {
  const Case c = generate(
      "gated_delta:heads=1/2,dim=6x4,seq=2x9+1x4,gates=mid,h0=normal,slots=permuted,pool_pad=3");
  expect_agrees_with_dense_form(c);
  const auto result = evaluate<double>(c);
  const auto stride = static_cast<std::size_t>(c.problem.state_row_stride());
  for (std::size_t i = 0; i < c["initial_state"].size(); ++i) {
    const auto row = static_cast<std::int64_t>(i / stride);
    const bool owned =
        std::find(c.slot_index.begin(), c.slot_index.end(), row) != c.slot_index.end();
    if (owned && i % stride < stride - 3) {
      EXPECT_NE(result["final_state"][i], static_cast<double>(c["initial_state"][i])) << i;
    } else if (std::isnan(c["initial_state"][i])) {
      EXPECT_TRUE(std::isnan(result["final_state"][i])) << i;
    } else {
      EXPECT_EQ(result["final_state"][i], static_cast<double>(c["initial_state"][i])) << i;
    }
  }
}

TEST(GatedDelta, PaddingSlotGivesZerosAndTouchesNoState) {
  const Case c =
      generate("gated_delta:heads=1/2,dim=6x4,seq=4x5,gates=mid,h0=normal,slots=padding");
  ASSERT_EQ(c.slot_index[2], -1);
  expect_agrees_with_dense_form(c);
  const auto result = evaluate<double>(c);
  for (std::size_t i = 2 * 5 * 8; i < 3 * 5 * 8; ++i) EXPECT_EQ(result["output"][i], 0.0);
}

TEST(GatedDelta, EmptySequenceLeavesItsRowAlone) {
  const Case c = generate("gated_delta:heads=1/1,dim=4x4,seq=1x3+1x0+1x2,gates=mid,h0=normal");
  expect_agrees_with_dense_form(c);
  const auto result = evaluate<double>(c);
  for (std::size_t i = 16; i < 32; ++i) {
    EXPECT_EQ(result["final_state"][i], static_cast<double>(c["initial_state"][i]));
  }
  // ... even where the initial state is absent, so that the row was never read.
  const auto absent =
      evaluate<double>(generate("gated_delta:heads=1/1,dim=4x4,seq=1x3+1x0,gates=mid"));
  EXPECT_FALSE(std::isnan(absent["final_state"][0]));
  EXPECT_TRUE(std::isnan(absent["final_state"][16]));
}

TEST(GatedDelta, AbsentInitialStateIsZerosAndThePoolIsNotRead) {
  const Case absent = generate("gated_delta:heads=1/1,dim=4x4,seq=1x6,gates=mid");
  ASSERT_TRUE(std::isnan(absent["initial_state"][0]));
  Case zeros = absent;
  zeros.problem.initial_state = InitialState::normal;
  std::fill(zeros["initial_state"].begin(), zeros["initial_state"].end(), 0.0f);
  EXPECT_EQ(evaluate<double>(absent)["output"], evaluate<double>(zeros)["output"]);
  EXPECT_EQ(evaluate<double>(absent)["final_state"], evaluate<double>(zeros)["final_state"]);
}

TEST(GatedDelta, NoFinalStateLeavesThePoolAlone) {
  const Case c = generate("gated_delta:heads=1/2,dim=4x4,seq=2x6,gates=mid,h0=normal,ht=0");
  expect_agrees_with_dense_form(c);
  EXPECT_EQ(evaluate<double>(c)["final_state"],
            std::vector<double>(c["initial_state"].begin(), c["initial_state"].end()));
}

TEST(GatedDelta, Scale) {
  expect_agrees_with_dense_form("gated_delta:heads=1/1,dim=8x4,seq=1x9,gates=mid,scale=0.7");
  const auto one = evaluate<double>(generate("gated_delta:heads=1/1,dim=4x4,seq=1x9,scale=1"));
  const auto by_default = evaluate<double>(generate("gated_delta:heads=1/1,dim=4x4,seq=1x9"));
  for (std::size_t i = 0; i < one["output"].size(); ++i) {
    EXPECT_DOUBLE_EQ(by_default["output"][i], one["output"][i] / 2);  // 1/sqrt(4)
  }
}

TEST(GatedDelta, NormaliseQAndK) {
  expect_agrees_with_dense_form(
      "gated_delta:heads=1/2,dim=8x4,seq=1x20,gates=mid,keys=unnormalised,norm=1");
  // The 1e-6 under the root keeps a zero key at zero.
  const auto zero = evaluate<double>(
      generate("gated_delta:heads=1/1,dim=8x4,seq=1x40,gates=mid,keys=zero,norm=1"));
  for (double x : zero["output"]) ASSERT_TRUE(std::isfinite(x));
}

TEST(GatedDelta, EveryGateEncoding) {
  for (const char* encoding : {"log_decay", "decay", "neg_log_decay", "logits"}) {
    expect_agrees_with_dense_form(std::string("gated_delta:heads=1/2,dim=8x4,seq=1x20,gate=") +
                                  encoding);
    expect_agrees_with_dense_form(
        std::string("gated_delta:heads=1/2,dim=8x4,seq=1x20,gates=mid,gate=") + encoding);
  }
}

TEST(GatedDelta, BoundedGates) {
  for (const char* gates : {"bounded", "real", "mid", "none", "-5..0"}) {
    for (const char* more : {"", ",decay=channel"}) {
      expect_agrees_with_dense_form(
          "gated_delta:heads=1/2,dim=8x4,seq=1x20,gate=bounded,gates=" + std::string(gates) + more);
    }
  }
  expect_agrees_with_dense_form(
      "gated_delta:heads=1/2,dim=8x4,seq=1x20,gate=bounded,gates=bounded,bound=0.25,beta=logit2");
}

// f + dt_bias = 0: sigmoid is 1/2 whatever A_log, and the state decays by exp(-bound / 2).
TEST(GatedDelta, ABoundedGateOfZeroIsHalfItsBound) {
  Case c = generate("gated_delta:heads=1/1,dim=2,seq=1,gate=bounded,bound=3,betas=zero,h0=normal");
  c["bounded_decay_logit"] = {0.75f};
  c["dt_bias"] = {-0.75f};
  c["A_log"] = {20.0f};
  const auto made = evaluate<double>(c);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(made["final_state"][i], std::exp(-1.5) * static_cast<double>(c["initial_state"][i]),
                1e-15);
  }
}

TEST(GatedDelta, BetaLogits) {
  expect_agrees_with_dense_form("gated_delta:heads=1/2,dim=8x4,seq=1x20,gates=mid,beta=logit");
  for (const char* betas : {"sigmoid", "wide", "two", "mixture"}) {
    expect_agrees_with_dense_form(
        "gated_delta:heads=1/2,dim=8x4,seq=1x20,gates=mid,beta=logit2,betas=" + std::string(betas));
  }
}

TEST(GatedDelta, InitialStateInSixteenBits) {
  expect_agrees_with_dense_form(
      "gated_delta:heads=1/1,dim=8x4,seq=1x9,gates=mid,dtype=bf16,state=f16,h0=normal");
}

TEST(GatedDelta, MinusInfinityResetsTheStateExactly) {
  // What came before the reset, infinities of an overflowed state included, leaves no trace.
  Case c = generate("gated_delta:heads=1/1,dim=4x4,seq=1x6,gates=mid,h0=normal");
  c["log_decay"][3] = -kInfinity;
  Case fresh = c;
  for (std::size_t i = 0; i < 3 * 4; ++i) fresh["v"][i] = 100.0f;
  const auto a = evaluate<double>(c);
  const auto b = evaluate<double>(fresh);
  EXPECT_EQ(a["final_state"], b["final_state"]);
  EXPECT_EQ(std::vector<double>(a["output"].begin() + 12, a["output"].end()),
            std::vector<double>(b["output"].begin() + 12, b["output"].end()));
  EXPECT_NE(a["output"][0], b["output"][0]);
  expect_agrees_with_dense_form("gated_delta:heads=1/2,dim=8x4,seq=1x200,gates=reset,h0=large");
}

TEST(GatedDelta, ResetForgetsAnOverflowedState) {
  Case c = generate("gated_delta:heads=1/1,dim=4x4,seq=1x3,gates=mid");
  std::fill(c["v"].begin(), c["v"].begin() + 4, std::numeric_limits<float>::max());
  std::fill(c["v"].begin() + 4, c["v"].begin() + 8, -std::numeric_limits<float>::max());
  c["log_decay"][2] = -kInfinity;
  for (float x : evaluate<float>(c)["final_state"]) EXPECT_TRUE(std::isfinite(x));
}

TEST(GatedDelta, PairsEvaluatedAreThoseOfTheWholeAndTheOthersAreNaN) {
  const Case c = generate("gated_delta:heads=1/3,dim=4x2,seq=1x3+1x0+1x4,gates=mid,h0=normal");
  const auto whole = evaluate<double>(c);
  EvaluationOptions some;
  some.pairs = {{0, 1}, {2, 2}};
  const auto part = evaluate<double>(c, some);
  for (std::size_t i = 0; i < whole["output"].size(); ++i) {
    const std::size_t head = i / 2 % 3;
    const bool evaluated = i < 3 * 6 ? head == 1 : head == 2;
    if (evaluated) {
      EXPECT_EQ(part["output"][i], whole["output"][i]) << i;
    } else {
      EXPECT_TRUE(std::isnan(part["output"][i])) << i;
    }
  }
  for (std::size_t i = 0; i < whole["final_state"].size(); ++i) {
    const std::size_t head = i / 8 % 3;
    const std::size_t row = i / 24;
    const bool kept = row == 1 || (row == 0 && head == 1) || (row == 2 && head == 2);
    EXPECT_EQ(std::isnan(part["final_state"][i]), !kept) << i;
    if (kept) {
      EXPECT_EQ(part["final_state"][i], whole["final_state"][i]) << i;
    }
  }
  some.pairs = {{3, 0}};
  EXPECT_THROW(evaluate<double>(c, some), Error);
}

TEST(GatedDelta, ThreadsDoNotChangeABit) {
  const Case c = generate("gated_delta:heads=2/4,dim=16x16,seq=3x20,gates=mid,h0=normal");
  EvaluationOptions one;
  one.threads = 1;
  EvaluationOptions seven;
  seven.threads = 7;
  EXPECT_EQ(evaluate<double>(c, one)["output"], evaluate<double>(c, seven)["output"]);
  EXPECT_EQ(evaluate<double>(c, one)["final_state"], evaluate<double>(c, seven)["final_state"]);
}

TEST(GatedDelta, RejectsWhatIsNoCase) {
  Case c = hand_case();
  c["decay"][0] = 1.5f;
  EXPECT_THROW(evaluate<double>(c), Error);
}

}  // namespace
}  // namespace gdn::reference::testing
