// gated_delta_layer: the chain of contract 1.3, assembled here from its parts.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/inputs/counter_random.h"
#include "harness/operations/generate_case.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_layer.h"
#include "interface/operations/gated_rms_norm.h"
#include "reference/conditioning.h"
#include "reference/gated_rms_norm.h"
#include "reference/tests/dense_formulation.h"

namespace gdn::reference::testing {
namespace {

// The layer with q, k, v taken out of its convolution: what gated_delta would be given. They pass
// through float32 here, which the layer does not do: hence the tolerance.
void expect_is_conv_then_gated_delta(const std::string& problem) {
  SCOPED_TRACE(problem);
  const Case layer = generate_case(Problem::parse(problem));
  const Problem& p = layer.problem;
  const auto whole = evaluate<double>(layer);

  const Operation convolution = causal_conv1d_operation();
  Case conv = layer;
  conv.problem = step_of(p, convolution);
  for (const auto& [name, values] : layer.arrays) {
    if (convolution->find(name) == nullptr) conv.arrays.erase(name);
  }
  const auto first = evaluate<double>(conv);
  EXPECT_EQ(whole["conv_output"], first["conv_output"]);
  EXPECT_EQ(whole["conv_state"], first["conv_state"]);

  Case delta = layer;
  delta.problem = step_of(p, gated_delta_operation());
  delta.problem.normalize_qk = true;
  const std::int64_t channels = p.conv_channels();
  const std::int64_t key_dims = p.num_key_heads * p.key_head_dim;
  for (std::int64_t t = 0; t < p.total_tokens(); ++t) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const float x = static_cast<float>(first["conv_output"].at(
          p.conv_layout == ConvLayout::channels ? t * channels + c : c * p.total_tokens() + t));
      (c < key_dims ? delta["q"] : c < 2 * key_dims ? delta["k"] : delta["v"]).push_back(x);
    }
  }
  const auto second = dense_gated_delta(delta);
  const double output = relative_difference(whole["output"], second["output"]);
  const double state = relative_difference(whole["final_state"], second["final_state"]);
  EXPECT_TRUE(output <= 5e-7) << output;
  EXPECT_TRUE(state <= 5e-7) << state;
  EXPECT_GT(output, 1e-9) << "the convolution's output was rounded to float32 in between";
}

TEST(GatedDeltaLayer, IsConvolutionThenNormThenGatesThenGatedDelta) {
  expect_is_conv_then_gated_delta(
      "gated_delta_layer:heads=2/4,dim=8x6,seq=1x20+1x3,gate=logits,beta=logit");
}

TEST(GatedDeltaLayer, EveryOptionOfItsParts) {
  expect_is_conv_then_gated_delta(
      "gated_delta_layer:heads=1/3,dim=8x6,seq=1x9+1x0+1x5+1x2,gate=logits,beta=logit,"
      "slots=padding,h0=normal,layout=vk,pool_pad=3,bias=1,width=3,gates=mid");
  expect_is_conv_then_gated_delta(
      "gated_delta_layer:heads=1/2,dim=8x6,seq=1x12,gates=mid,conv_layout=time,act=none,scale=0.5");
}

// The last step: the operation gated_rms_norm of what the layer gives without it.
TEST(GatedDeltaLayer, EndsInTheGatedNormWhereAskedTo) {
  for (const char* options : {"", ",norm_gate=sigmoid,norm_eps=1e-3", ",slots=padding"}) {
    const Case layer = generate_case(Problem::parse(
        "gated_delta_layer:heads=1/3,dim=8x6,seq=1x9+1x0+1x5,h0=normal,gates=mid,gated_norm=1" +
        std::string(options)));
    SCOPED_TRACE(layer.problem.to_string());
    Case before = layer;
    before.problem.gated_norm = false;
    before.problem.norm_gate = NormGate::silu;
    before.problem.norm_eps = Problem().norm_eps;
    before.arrays.erase("z");
    before.arrays.erase("norm_weight");
    Case norm;
    norm.problem = step_of(layer.problem, gated_rms_norm_operation());
    norm.sequence_offsets = layer.sequence_offsets;
    const auto steps = evaluate<double>(before);
    norm["x"].assign(steps["output"].begin(), steps["output"].end());
    norm["z"] = layer["z"];
    norm["weight"] = layer["norm_weight"];
    const auto whole = evaluate<double>(layer);
    const double output = relative_difference(whole["output"], evaluate<double>(norm)["y"]);
    EXPECT_TRUE(output <= 5e-7) << output;
    EXPECT_EQ(whole["final_state"], steps["final_state"]);
    EXPECT_EQ(whole["conv_state"], steps["conv_state"]);
  }
}

// A norm makes tokens of small values as large as the others, and their errors with them: the same
// error in every element, through the norm, is what the growth says.
TEST(GatedDeltaLayer, ErrorsGrowByTheNormAsMeasured) {
  Case layer = generate_case(Problem::parse(
      "gated_delta_layer:heads=1/1,dim=8x64,seq=1x40,h0=normal,gates=mid,gated_norm=1"));
  // The betas fall: late tokens give small outputs.
  for (std::size_t t = 0; t < layer["beta"].size(); ++t) {
    layer["beta"][t] = std::pow(0.7f, static_cast<float>(t));
  }
  const auto reference = evaluate<double>(layer);
  const Conditioning conditioning = measure_conditioning(layer, reference);
  ASSERT_EQ(conditioning.norm_growths.size(), 1u);
  const double growth = conditioning.norm_growths[0];
  EXPECT_GT(growth, 3);

  Case before = layer;
  before.problem.gated_norm = false;
  before.arrays.erase("z");
  before.arrays.erase("norm_weight");
  const std::vector<double> exact = evaluate<double>(before)["output"];
  double length = 0;
  for (const double o : exact) length += o * o / static_cast<double>(exact.size());
  constexpr double kError = 1e-7;  // of the length, in every element, its sign at random
  const CounterStream signs(7, "signs");
  std::vector<double> wrong = exact;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    wrong[i] += (signs.below(i, 2) == 0 ? 1 : -1) * kError * std::sqrt(length);
  }
  const Problem& p = layer.problem;
  for (std::size_t at = 0; at < wrong.size(); at += static_cast<std::size_t>(p.value_head_dim)) {
    gated_norm_row(p, wrong.data() + at, layer["z"].data() + at, layer["norm_weight"].data(),
                   wrong.data() + at);
  }
  const double error = relative_difference(wrong, reference["output"]);
  EXPECT_TRUE(std::abs(error / kError / growth - 1) <= 0.1) << error / kError << ", " << growth;
}

TEST(GatedDeltaLayer, WritesItsWindowsEvenWithoutAFinalState) {
  const Case c = generate_case(
      Problem::parse("gated_delta_layer:heads=1/1,dim=4x4,seq=1x9,gates=mid,h0=normal,ht=0"));
  const auto result = evaluate<double>(c);
  const auto widened = [&](const char* array) {
    return std::vector<double>(c[array].begin(), c[array].end());
  };
  EXPECT_EQ(result["final_state"], widened("initial_state"));
  EXPECT_NE(result["conv_state"], widened("conv_state"));
}

TEST(GatedDeltaLayer, SampledPairsStillFillTheConvolution) {
  const Case c =
      generate_case(Problem::parse("gated_delta_layer:heads=1/2,dim=4x4,seq=2x5,gates=mid"));
  EvaluationOptions one;
  one.pairs = {{1, 1}};
  const auto part = evaluate<double>(c, one);
  EXPECT_EQ(part["conv_output"], evaluate<double>(c)["conv_output"]);
  EXPECT_TRUE(std::isnan(part["output"].front()));
  EXPECT_FALSE(std::isnan(part["output"].back()));
}

}  // namespace
}  // namespace gdn::reference::testing
