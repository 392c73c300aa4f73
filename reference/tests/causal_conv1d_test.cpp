// The convolution and its windows (contract 1.2).
#include "reference/causal_conv1d.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/operations/generate_case.h"
#include "interface/error.h"
#include "reference/reference.h"
#include "reference/tests/dense_formulation.h"

namespace gdn::reference::testing {
namespace {

Case generate(const std::string& problem) { return generate_case(Problem::parse(problem)); }

// Where a window's place lies in conv_state.
std::int64_t window_at(const Problem& p, std::int64_t slot, std::int64_t channel,
                       std::int64_t place) {
  const std::int64_t channels = p.conv_channels();
  const std::int64_t places = p.window_length == 0 ? p.conv_width - 1 : p.window_length;
  return p.window_layout == WindowLayout::time ? (slot * channels + channel) * places + place
                                               : (slot * places + place) * channels + channel;
}

// Where input number `place` of sequence n's window lies among its places, counted from the oldest one,
// once `length` of the call's tokens are in it: in a ring an input lies at its own number modulo the
// places, and the input behind the newest one has the number position + length.
std::int64_t turned(const Case& c, std::int64_t n, std::int64_t place, std::int64_t length) {
  const Problem& p = c.problem;
  if (p.window_order != WindowOrder::ring) return place;
  const std::int64_t places = p.window_length == 0 ? p.conv_width - 1 : p.window_length;
  const std::int64_t number = c.other_indices["window_position"].at(n) + length - places + place;
  return (number % places + places) % places;
}

// One element of x of sequence n, by its position: negative positions lie in the old window.
double input_at(const Case& c, std::int64_t n, std::int64_t position, std::int64_t channel) {
  const Problem& p = c.problem;
  const std::int64_t channels = p.conv_channels();
  if (position < 0) {
    if (!p.reads_conv_window()) return 0;
    if (p.fresh_windows && c.other_indices["has_window"].at(n) == 0) return 0;
    const std::int64_t slot = c.slot_index.empty() ? n : c.slot_index.at(n);
    const std::int64_t window = p.window_length == 0 ? p.conv_width - 1 : p.window_length;
    return c["conv_state"].at(window_at(p, slot, channel, turned(c, n, window + position, 0)));
  }
  const std::int64_t t = c.sequence_offsets.at(n) + position;
  return p.conv_layout == ConvLayout::channels ? c["qkv"].at(t * channels + channel)
                                               : c["qkv"].at(channel * p.total_tokens() + t);
}

// Every output and window of the case, from input_at alone.
void expect_defined_values(const Case& c) {
  SCOPED_TRACE(c.problem.to_string());
  const Problem& p = c.problem;
  const auto result = evaluate<double>(c);
  const std::int64_t channels = p.conv_channels();
  const std::int64_t window = p.window_length == 0 ? p.conv_width - 1 : p.window_length;
  std::vector<double> output(c["qkv"].size(), 0.0);
  std::vector<double> state;
  if (c.arrays.has("conv_state")) state.assign(c["conv_state"].begin(), c["conv_state"].end());
  for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
    const std::int64_t slot = c.slot_index.empty() ? n : c.slot_index.at(n);
    if (slot < 0) continue;
    const std::int64_t length = p.sequences.lengths.at(n);
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      for (std::int64_t t = 0; t < length; ++t) {
        double sum = p.conv_bias ? c["conv_bias"].at(channel) : 0.0;
        for (std::int64_t back = 0; back < p.conv_width; ++back) {
          sum += static_cast<double>(c["conv_weight"].at((channel + 1) * p.conv_width - 1 - back)) *
                 input_at(c, n, t - back, channel);
        }
        const double act = p.activation == Activation::silu ? sum / (1 + std::exp(-sum)) : sum;
        const std::int64_t token = c.sequence_offsets.at(n) + t;
        const std::int64_t at = p.conv_layout == ConvLayout::channels
                                    ? token * channels + channel
                                    : channel * p.total_tokens() + token;
        output.at(at) = act;
        if (p.conv_residual == ConvResidual::input) output.at(at) += input_at(c, n, t, channel);
        if (p.conv_residual == ConvResidual::tensor) output.at(at) += c["residual"].at(at);
      }
      for (std::int64_t j = 0; p.writes_conv_window() && j < window; ++j) {
        state.at(window_at(p, slot, channel, turned(c, n, j, length))) =
            input_at(c, n, length - window + j, channel);
      }
    }
  }
  const double error = relative_difference(result["conv_output"], output);
  EXPECT_TRUE(error <= 1e-14) << error;
  ASSERT_EQ(result.has("conv_state"), p.conv_window != ConvWindow::none);
  if (result.has("conv_state")) {
    EXPECT_EQ(result["conv_state"], state);
  }
}

TEST(CausalConv1d, MatchesValuesWorkedOutByHand) {
  // Three channels (Hk = Hv = 1, Dk = Dv = 1), width 3, weights (1, 2, 4), window (5, 7),
  // x = (1, 10).
  //   y0 = 5 + 14 + 4 = 23;   y1 = 7 + 2 + 40 = 49;   the new window is x.
  Case c;
  c.problem = Problem::parse("causal_conv1d:heads=1/1,dim=1x1,seq=1x2,width=3,act=none");
  c.sequence_offsets = {0, 2};
  c["qkv"] = {1, 1, 1, 10, 10, 10};
  c["conv_weight"] = {1, 2, 4, 1, 2, 4, 1, 2, 4};
  c["conv_state"] = {5, 7, 5, 7, 5, 7};
  const auto result = evaluate<double>(c);
  EXPECT_EQ(result["conv_output"], (std::vector<double>{23, 23, 23, 49, 49, 49}));
  EXPECT_EQ(result["conv_state"], (std::vector<double>{1, 10, 1, 10, 1, 10}));
}

TEST(CausalConv1d, OneChannelOfNoHeads) {
  // Weights (1, 2, 4), window (5, 7), x = (1, 10), as above.
  Case c;
  c.problem = Problem::parse("causal_conv1d:channels=1,seq=1x2,width=3,act=none");
  c.sequence_offsets = {0, 2};
  c["qkv"] = {1, 10};
  c["conv_weight"] = {1, 2, 4};
  c["conv_state"] = {5, 7};
  const auto result = evaluate<double>(c);
  EXPECT_EQ(result["conv_output"], (std::vector<double>{23, 49}));
  EXPECT_EQ(result["conv_state"], (std::vector<double>{1, 10}));
}

TEST(CausalConv1d, WindowsThatAreNotReadAreZeros) {
  // As above with a window of zeros: y0 = 4, y1 = 2 + 40.
  Case c;
  c.problem = Problem::parse("causal_conv1d:channels=1,seq=1x2,width=3,act=none,window=written");
  c.sequence_offsets = {0, 2};
  c["qkv"] = {1, 10};
  c["conv_weight"] = {1, 2, 4};
  c["conv_state"] = {5, 7};
  auto result = evaluate<double>(c);
  EXPECT_EQ(result["conv_output"], (std::vector<double>{4, 42}));
  EXPECT_EQ(result["conv_state"], (std::vector<double>{1, 10}));
  c.arrays.erase("conv_state");
  c.problem.conv_window = ConvWindow::none;
  result = evaluate<double>(c);
  EXPECT_EQ(result["conv_output"], (std::vector<double>{4, 42}));
  EXPECT_FALSE(result.has("conv_state"));
}

TEST(CausalConv1d, WindowsReadOrWrittenAloneOrNotAtAll) {
  for (const char* window : {"read", "written", "none"}) {
    Case c = generate("causal_conv1d:channels=5,seq=1x9+1x0+1x2,slots=padding,window=" +
                      std::string(window));
    // Rows that nobody reads hold NaN, which is not equal to itself.
    if (c.arrays.has("conv_state") && !c.problem.reads_conv_window()) {
      std::fill(c["conv_state"].begin(), c["conv_state"].end(), 3.0f);
    }
    expect_defined_values(c);
  }
}

TEST(CausalConv1d, WindowsLongerThanTheConvolutionReads) {
  // Weights (1, 2, 4), window (9, 5, 7), x = (10): y0 = 5 + 14 + 40, and the oldest input leaves.
  Case c;
  c.problem = Problem::parse("causal_conv1d:channels=1,seq=1x1,width=3,act=none,window_length=3");
  c.sequence_offsets = {0, 1};
  c["qkv"] = {10};
  c["conv_weight"] = {1, 2, 4};
  c["conv_state"] = {9, 5, 7};
  const auto result = evaluate<double>(c);
  EXPECT_EQ(result["conv_output"], (std::vector<double>{59}));
  EXPECT_EQ(result["conv_state"], (std::vector<double>{5, 7, 10}));
  for (const char* length : {"3", "4", "9", "20"}) {
    expect_defined_values(
        generate("causal_conv1d:channels=5,seq=1x9+1x0+1x2,slots=padding,window_layout=channels,"
                 "window_length=" +
                 std::string(length)));
  }
}

TEST(CausalConv1d, WindowsThatAreRings) {
  // Weights (1, 2, 4), six tokens before: they lie at 0..5 mod 4, so that tokens 4 and 5, the last ones,
  // are 5 and 7 at places 0 and 1. x = (10): y0 = 5 + 14 + 40, and x goes to place 6 mod 4 alone.
  Case c;
  c.problem = Problem::parse(
      "causal_conv1d:channels=1,seq=1x1,width=3,act=none,window_length=4,window_order=ring");
  c.sequence_offsets = {0, 1};
  c.other_indices["window_position"] = {6};
  c["qkv"] = {10};
  c["conv_weight"] = {1, 2, 4};
  c["conv_state"] = {5, 7, 8, 9};
  const auto result = evaluate<double>(c);
  EXPECT_EQ(result["conv_output"], (std::vector<double>{59}));
  EXPECT_EQ(result["conv_state"], (std::vector<double>{5, 7, 10, 9}));
  for (const char* options :
       {"window_length=3", "window_length=4,slots=permuted", "window_length=9,window=read",
        "window_length=20,window_layout=channels,slots=padding", "window_length=6,fresh=1",
        "window_length=4,conv_in_place=0", "width=9,conv_layout=time"}) {
    expect_defined_values(generate(
        "causal_conv1d:channels=5,seq=1x9+1x0+1x2+1x1,window_order=ring," + std::string(options)));
  }
}

TEST(CausalConv1d, PositionsInRingsThatAreNegativeAreRefused) {
  Case c = generate("causal_conv1d:channels=5,seq=1x9+1x2,window_order=ring");
  c.other_indices["window_position"] = {7, -3};
  try {
    validate(c);
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "window_position: value -3 at index 1, expected 0 or more");
  }
}

TEST(CausalConv1d, AWindowShorterThanTheConvolutionReadsIsRefused) {
  try {
    Problem::parse("causal_conv1d:channels=5,seq=9,width=4,window_length=2");
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "problem: window_length=2: width=4 expects auto or 3..65536");
  }
}

TEST(CausalConv1d, SequencesThatStartAnewBesideOthers) {
  expect_defined_values(
      generate("causal_conv1d:channels=5,seq=1x9+1x8+2x0+2x2,slots=permuted,fresh=1"));
  expect_defined_values(
      generate("causal_conv1d:channels=5,seq=1x9+1x8+2x0+2x2,window_length=5,window=read,fresh=1"));
}

TEST(CausalConv1d, TheInputAddedToTheOutput) {
  expect_defined_values(generate("causal_conv1d:channels=5,seq=1x9+1x2,bias=1,residual=1"));
  expect_defined_values(generate(
      "causal_conv1d:channels=5,seq=1x9+1x2,slots=padding,conv_layout=time,window_length=5,"
      "residual=1"));
}

TEST(CausalConv1d, ATensorAddedToTheOutput) {
  expect_defined_values(generate("causal_conv1d:channels=5,seq=1x9+1x2,bias=1,residual=tensor"));
  expect_defined_values(generate(
      "causal_conv1d:channels=5,seq=1x9+1x2,slots=padding,conv_layout=time,window_length=5,"
      "residual=tensor"));
  // The convolution is 1, 2.5 (weights 1, 2 and inputs 0.5, 1 behind a window of 0), its window 1.
  Case c;
  c.problem = Problem::parse("causal_conv1d:channels=1,seq=2,width=2,act=none,residual=tensor");
  c.sequence_offsets = {0, 2};
  c["qkv"] = {0.5, 1};
  c["conv_weight"] = {1, 2};
  c["conv_state"] = {0};
  c["residual"] = {100, -7};
  const auto result = evaluate<double>(c);
  EXPECT_EQ(result["conv_output"], (std::vector<double>{101, -4.5}));
  EXPECT_EQ(result["conv_state"], (std::vector<double>{1}));
}

TEST(CausalConv1d, Float32WeightsBeside16BitTokens) {
  for (const char* dtype : {"bf16", "f16"}) {
    const Case c = generate("causal_conv1d:channels=5,seq=1x9+1x2,bias=1,weights=f32,dtype=" +
                            std::string(dtype));
    // Numbers that the token dtype does not have: the reference must not round them.
    for (const char* name : {"conv_weight", "conv_bias"}) {
      EXPECT_TRUE(std::any_of(c[name].begin(), c[name].end(),
                              [&](float x) { return x != round_to(c.problem.token_dtype, x); }))
          << dtype << " " << name;
    }
    expect_defined_values(c);
  }
}

TEST(CausalConv1d, WindowsWithChannelsFastest) {
  expect_defined_values(
      generate("causal_conv1d:channels=5,seq=1x9+1x0+1x2,slots=padding,window_layout=channels"));
  expect_defined_values(
      generate("causal_conv1d:channels=5,seq=1x9+1x2,width=9,window_layout=channels,window=read"));
}

TEST(CausalConv1d, AnyNumberOfChannels) {
  for (const std::size_t channels : {1u, 3u, 5u, 130u, 6145u}) {
    for (const char* layout : {"channels", "time"}) {
      const Case c = generate("causal_conv1d:channels=" + std::to_string(channels) +
                              ",seq=1x9+1x0+1x2,bias=1,slots=permuted,conv_layout=" + layout);
      ASSERT_EQ(c["qkv"].size(), 11 * channels);
      ASSERT_EQ(c["conv_weight"].size(), 4 * channels);
      ASSERT_EQ(c["conv_bias"].size(), channels);
      ASSERT_EQ(c["conv_state"].size(), 6 * 3 * channels);
      expect_defined_values(c);
    }
  }
}

TEST(CausalConv1d, WindowsOfEveryLengthAndWidth) {
  for (int width : {2, 3, 4, 5}) {
    for (int length : {0, 1, 2, 3, 4, 5}) {
      expect_defined_values(generate("causal_conv1d:heads=1/1,dim=2x3,seq=1x" +
                                     std::to_string(length) + ",width=" + std::to_string(width)));
    }
  }
}

TEST(CausalConv1d, WidestKernelOnShortSequences) {
  expect_defined_values(
      generate("causal_conv1d:heads=1/1,dim=2x3,seq=1x14+1x13+1x1+1x30,width=15"));
}

TEST(CausalConv1d, BiasAndNoActivation) {
  expect_defined_values(generate("causal_conv1d:heads=1/2,dim=4x3,seq=1x9,bias=1"));
  expect_defined_values(generate("causal_conv1d:heads=1/2,dim=4x3,seq=1x9,bias=1,act=none"));
}

TEST(CausalConv1d, RaggedBatchWithSlotsAndPadding) {
  expect_defined_values(
      generate("causal_conv1d:heads=1/2,dim=4x3,seq=1x9+1x0+1x4+1x2+1x1,"
               "slots=padding"));
}

TEST(CausalConv1d, TimeLayoutIsTheTranspose) {
  const char* const options = "causal_conv1d:heads=1/2,dim=4x3,seq=1x9+1x2,slots=permuted";
  Case by_channels = generate(options);
  Case by_time = by_channels;
  by_time.problem.conv_layout = ConvLayout::time;
  const std::size_t channels = 14;
  for (std::size_t t = 0; t < 11; ++t) {
    for (std::size_t c = 0; c < channels; ++c) {
      by_time["qkv"][c * 11 + t] = by_channels["qkv"][t * channels + c];
    }
  }
  expect_defined_values(by_time);
  const auto a = evaluate<double>(by_channels);
  const auto b = evaluate<double>(by_time);
  EXPECT_EQ(a["conv_state"], b["conv_state"]);
  for (std::size_t t = 0; t < 11; ++t) {
    for (std::size_t c = 0; c < channels; ++c) {
      ASSERT_EQ(b["conv_output"][c * 11 + t], a["conv_output"][t * channels + c]);
    }
  }
}

TEST(CausalConv1d, OutOfPlaceIsInPlace) {
  Case c = generate("causal_conv1d:heads=1/2,dim=4x3,seq=1x2+1x0,width=5");
  const auto in_place = evaluate<double>(c);
  c.problem.conv_state_in_place = false;
  expect_defined_values(c);
  EXPECT_EQ(evaluate<double>(c)["conv_state"], in_place["conv_state"]);
}

TEST(CausalConv1d, ChannelBlocksAndThreadsDoNotChangeABit) {
  const Case c = generate("causal_conv1d:heads=1/2,dim=40x33,seq=1x7+1x3");  // 146 channels
  expect_defined_values(c);
  EvaluationOptions five;
  five.threads = 5;
  EXPECT_EQ(evaluate<double>(c)["conv_output"], evaluate<double>(c, five)["conv_output"]);
}

}  // namespace
}  // namespace gdn::reference::testing
