// The gated norm's gradients (contract 1.13) against finite differences of the forward reference in
// long double, and what holds of rows of zeros, of gates far out and of samples.
#include "interface/operations/gated_rms_norm_backward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/operations/generate_case.h"
#include "interface/operations/gated_rms_norm.h"
#include "reference/errors.h"
#include "reference/reference.h"
#include "reference/tests/differences.h"

namespace gdn::reference::testing {
namespace {

// Every unit ordinary: differences of what is drawn small or far out are of another size than the
// step.
Case smooth_case(const std::string& rest) {
  Case c = generate_case(Problem::parse("gated_rms_norm_backward:dtype=f32," + rest));
  for (const char* name : {"x", "z"}) {
    for (std::size_t i = 0; i < c[name].size(); ++i) {
      c[name][i] = std::sin(static_cast<float>(i) * (name[0] == 'x' ? 1.7f : 2.3f) + 1.0f) * 2;
    }
  }
  make_steps_exact(c);
  return c;
}

Case forward_of_norm(const Case& c) {
  Case forward;
  forward.problem = c.problem;
  forward.problem.operation = gated_rms_norm_operation();
  forward.sequence_offsets = c.sequence_offsets;
  for (const char* name : {"x", "z", "weight"}) forward[name] = c[name];
  return forward;
}

void expect_gradients_of_norm(const std::string& rest) {
  SCOPED_TRACE(rest);
  const Case c = smooth_case(rest);
  const Arrays<double> d = evaluate<double>(c);
  Case forward = forward_of_norm(c);
  const auto loss = [&] {
    const Arrays<long double> made = evaluate<long double>(forward, {.threads = 1, .pairs = {}});
    long double sum = 0;
    for (std::size_t i = 0; i < c["d_y"].size(); ++i) {
      sum += made["y"][i] * static_cast<long double>(c["d_y"][i]);
    }
    return sum;
  };
  for (const char* name : {"x", "z", "weight"}) {
    expect_is_gradient(name, forward[name], d["d_" + std::string(name)], loss);
  }
}

TEST(GatedRmsNormBackward, IsTheGradientOfTheNorm) {
  for (const char* gate : {"silu", "sigmoid", "sigmoid2"}) {
    for (const char* more : {"heads=1/3,dim=8x5,seq=2+0+1", "heads=1,dim=8x12,seq=2,norm_eps=0.5",
                             "heads=1/2,dim=4x2,seq=3,norm_eps=3"}) {
      expect_gradients_of_norm(std::string(more) + ",norm_gate=" + gate);
    }
  }
}

// Of one element u is x / sqrt(x^2 + eps): du / dx is eps over the root's cube.
TEST(GatedRmsNormBackward, OfOneElementEpsIsAllThereIs) {
  Case c = smooth_case("heads=1,dim=4x1,seq=1,norm_eps=9,norm_gate=sigmoid");
  c["x"] = {4};
  c["z"] = {0};
  c["weight"] = {3};
  c["d_y"] = {2};
  const Arrays<double> d = evaluate<double>(c);
  EXPECT_NEAR(d["d_x"][0], 2 * 3 * 0.5 * 9 / 125.0, 1e-16);
  EXPECT_NEAR(d["d_z"][0], 2 * 3 * 0.8 * 0.25, 1e-16);
  EXPECT_NEAR(d["d_weight"][0], 2 * 0.8 * 0.5, 1e-16);
}

// The root is sqrt(eps), and nothing lies along x.
TEST(GatedRmsNormBackward, ARowOfZerosHasAGradient) {
  Case c = smooth_case("heads=1,dim=4x3,seq=1,norm_eps=1e-6,norm_gate=sigmoid2");
  c["x"] = {0, 0, 0};
  c["z"] = {0, 0, 0};
  c["weight"] = {1, 2, 3};
  c["d_y"] = {1, -1, 2};
  const Arrays<double> d = evaluate<double>(c);
  const std::vector<double> expected = {1000, -2000, 6000};
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_NEAR(d["d_x"][j], expected[j], 1e-9);
    EXPECT_EQ(d["d_z"][j], 0.0);
    EXPECT_EQ(d["d_weight"][j], 0.0);
  }
}

// SiLU's slope is 1 and 0 far out; nothing overflows on the way.
TEST(GatedRmsNormBackward, SlopesFarOut) {
  Case c = smooth_case("heads=1,dim=4x1,seq=6,norm_eps=3");
  c["x"].assign(6, 1.0f);
  c["weight"] = {1};
  c["d_y"].assign(6, 2.0f);
  c["z"] = {3e38f, -3e38f, 1000, -1000, 0, 40};
  const std::vector<double> expected = {1, 0, 1, 0, 0.5, 1};
  const Arrays<double> d = evaluate<double>(c);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(d["d_z"][i], expected[i], 1e-15) << i;
}

TEST(GatedRmsNormBackward, EvaluatesTheSampledPairsAlone) {
  const Case c = generate_case(Problem::parse("gated_rms_norm_backward:heads=1/3,dim=4,seq=2+0+1"));
  const auto all = evaluate<double>(c);
  EvaluationOptions options;
  options.pairs = {{0, 1}, {2, 2}};
  const auto some = evaluate<double>(c, options);
  for (const char* name : {"d_x", "d_z", "d_x_terms", "d_z_terms"}) {
    for (std::size_t i = 0; i < all[name].size(); ++i) {
      const std::size_t token = i / 12, head = i / 4 % 3;
      const bool sampled = (token < 2 && head == 1) || (token == 2 && head == 2);
      if (sampled) {
        EXPECT_EQ(some[name][i], all[name][i]) << name << " " << i;
      } else {
        EXPECT_TRUE(std::isnan(some[name][i])) << name << " " << i;
      }
    }
  }
}

// In float32 everything is within the limits, and no gradient of what is drawn leaves its type.
TEST(GatedRmsNormBackward, GeneratedInputsStayWithinTheirTypes) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* shape : {"heads=1/8,dim=1x4096,seq=5+3", "heads=1/8,dim=8x9,seq=300+200"}) {
      const Case c = generate_case(
          Problem::parse("gated_rms_norm_backward:dtype=" + std::string(dtype) + "," + shape));
      const auto reference = evaluate<double>(c);
      const auto made = evaluate<float>(c);
      Outputs outputs;
      for (const char* name : {"d_x", "d_z", "d_weight"}) {
        const DType type = c.problem.operation->at(name).dtype(c.problem);
        for (const float value : made[name]) {
          outputs[name].push_back(round_to(type, value));
          EXPECT_TRUE(std::isfinite(outputs[name].back())) << c.problem.to_string();
        }
      }
      const ErrorReport report = compare(c, reference, outputs);
      EXPECT_EQ(violation(report, report.limits), "") << c.problem.to_string();
    }
  }
}

}  // namespace
}  // namespace gdn::reference::testing
