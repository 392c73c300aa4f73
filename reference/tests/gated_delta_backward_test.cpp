// The gradients (contract 1.4) against finite differences of the forward reference in long double, and
// against identities that hold of any gradients of the recurrence.
#include "interface/operations/gated_delta_backward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/operations/generate_case.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/reference.h"
#include "reference/tests/differences.h"

namespace gdn::reference::testing {
namespace {

// Of small inputs within the operands' rules, whose differences are exact.
Case drawn_gated_delta(const std::string& rest) {
  Case c = generate_case(Problem::parse("gated_delta_backward:dtype=f32," + rest));
  make_steps_exact(c);
  for (float& x : c[gate_name(c.problem)]) {
    switch (c.problem.gate_encoding) {
      case GateEncoding::log_decay:
        x = std::fmin(x, -0x1p-4f);
        break;
      case GateEncoding::decay:
        x = std::fmin(std::fmax(x, 0x1p-4f), 1 - 0x1p-4f);
        break;
      case GateEncoding::neg_log_decay:
        x = std::fmax(x, 0x1p-4f);
        break;
      case GateEncoding::logits:
      case GateEncoding::bounded:
        break;
    }
  }
  if (c.problem.beta_encoding == BetaEncoding::beta) {
    for (float& x : c["beta"]) x = std::fmin(std::fmax(x, 0x1p-4f), 2 - 0x1p-4f);
  }
  return c;
}

// The same call forward: every array that both operations have.
Case forward_of_gated_delta(const Case& c) {
  Case forward;
  forward.problem = c.problem;
  forward.problem.operation = gated_delta_operation();
  forward.sequence_offsets = c.sequence_offsets;
  forward.slot_index = c.slot_index;
  for (const auto& [name, values] : c.arrays) {
    if (forward.problem.operation->find(name) != nullptr) forward[name] = values;
  }
  return forward;
}

// <output, d_output> + <final_state, d_final_state> over the sequences that own a row.
long double loss_of_gated_delta(const Case& c, const Case& forward) {
  const Arrays<long double> made = evaluate<long double>(forward, {.threads = 1, .pairs = {}});
  long double sum = 0;
  for (std::size_t i = 0; i < c["d_output"].size(); ++i) {
    sum += made["output"][i] * static_cast<long double>(c["d_output"][i]);
  }
  if (!c.problem.final_state) return sum;
  const std::int64_t stride = c.problem.state_row_stride();
  for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
    if (c.slot(n) < 0) continue;
    for (std::int64_t i = 0; i < stride - c.problem.pool_row_padding; ++i) {
      const auto at = static_cast<std::size_t>(c.slot(n) * stride + i);
      sum += made["final_state"][at] * static_cast<long double>(c["d_final_state"][at]);
    }
  }
  return sum;
}

void expect_gradients_of_gated_delta(const std::string& rest) {
  SCOPED_TRACE(rest);
  const Case c = drawn_gated_delta(rest);
  const Arrays<double> d = evaluate<double>(c);
  Case forward = forward_of_gated_delta(c);
  for (const Operand& operand : c.problem.operation->operands) {
    const bool has_gradient = c.problem.operation->find("d_" + operand.name) != nullptr;
    if (operand.role != Role::input || !has_gradient || !is_present(operand, c.problem)) continue;
    if (!is_read(operand, c.problem)) continue;
    expect_is_gradient(operand.name, forward[operand.name], d["d_" + operand.name],
                       [&] { return loss_of_gated_delta(c, forward); });
  }
}

TEST(GatedDeltaBackward, EncodingsAgainstDifferences) {
  for (const char* gate : {"log_decay", "decay", "neg_log_decay", "logits", "bounded,bound=2"}) {
    for (const char* beta : {"beta", "logit", "logit2"}) {
      expect_gradients_of_gated_delta("heads=1/2,dim=3x4,seq=5+3,gates=mid,h0=normal,gate=" +
                                      std::string(gate) + ",beta=" + beta);
    }
  }
}

TEST(GatedDeltaBackward, OptionsAgainstDifferences) {
  for (const char* options :
       {"", "norm=1", "scale=0.5", "ht=0", "layout=vk,norm=1", "slots=permuted,pool_pad=3",
        "slots=padding,layout=vk", "betas=wide"}) {
    const std::string more = *options == '\0' ? "" : "," + std::string(options);
    expect_gradients_of_gated_delta("heads=2/4,dim=4x3,seq=4+0+1+3,gates=mid,h0=normal" + more);
  }
  expect_gradients_of_gated_delta(
      "heads=1/3,dim=3,seq=5,gates=mid,norm=1");  // without an initial state
}

// The loss is affine in one decay: one step from 0 is the derivative at a full reset.
TEST(GatedDeltaBackward, ADecayOfZeroHasItsOneSidedDerivative) {
  Case c = drawn_gated_delta("heads=1/1,dim=4x3,seq=6,gates=mid,gate=decay,h0=normal");
  c["decay"][0] = 0;
  Case forward = forward_of_gated_delta(c);
  const long double at_zero = loss_of_gated_delta(c, forward);
  forward["decay"][0] = 1;
  const double slope = static_cast<double>(loss_of_gated_delta(c, forward) - at_zero);
  EXPECT_GT(std::fabs(slope), 1e-3);
  const Arrays<double> d = evaluate<double>(c);
  EXPECT_NEAR(d["d_decay"][0], slope, 1e-12);
  EXPECT_EQ(d["d_initial_state"], std::vector<double>(12, 0.0));
}

// -inf, inf and logits whose product overflows: exactly zero, and nothing passes.
TEST(GatedDeltaBackward, AFullResetHasGradientsOfExactlyZero) {
  for (const char* gate : {"log_decay", "neg_log_decay", "logits"}) {
    SCOPED_TRACE(gate);
    Case c =
        drawn_gated_delta("heads=1/1,dim=4,seq=6,gates=mid,h0=normal,gate=" + std::string(gate));
    std::vector<float>& gates = c[gate_name(c.problem)];
    const float inf = std::numeric_limits<float>::infinity();
    if (c.problem.gate_encoding == GateEncoding::logits) {
      c["A_log"] = {800};  // exp overflows float64
      gates.assign(gates.size(), -1000);
      gates[0] = 10;
      c["dt_bias"] = {0};
    } else {
      gates[0] = c.problem.gate_encoding == GateEncoding::log_decay ? -inf : inf;
    }
    Arrays<double> d = evaluate<double>(c);
    EXPECT_EQ(d[gate_gradient_name(c.problem)][0], 0.0);
    EXPECT_EQ(d["d_initial_state"], std::vector<double>(16, 0.0));
    for (const auto& [name, values] : d) {
      for (const double x : values) EXPECT_TRUE(std::isfinite(x)) << name;
    }
  }
}

// Gates whose sigmoid has saturated have a gradient of zero, beside an argument of exactly zero, whose
// gradient has the rate as a factor; where the rate leaves float64 it may be infinite, but no NaN.
TEST(GatedDeltaBackward, SaturatedBoundedGatesHaveGradientsOfZero) {
  for (const float A_log : {-20.0f, 20.0f, 100.0f, 300.0f, 800.0f, 3e38f}) {
    SCOPED_TRACE(A_log);
    Case c = drawn_gated_delta("heads=1/1,dim=4,seq=6,gates=mid,h0=normal,gate=bounded");
    c["A_log"] = {A_log};
    c["bounded_decay_logit"] = {0, 1, -1, 300, -300, 0x1p-10f};
    const Arrays<double> d = evaluate<double>(c);
    for (const auto& [name, values] : d) {
      for (const double x : values) {
        EXPECT_TRUE(A_log > 300 ? !std::isnan(x) : std::isfinite(x)) << name;
      }
    }
    EXPECT_NE(d["d_bounded_decay_logit"][0], 0.0);
    if (A_log < 0) continue;
    for (const std::size_t saturated : {1, 2, 3, 4}) {
      EXPECT_EQ(d["d_bounded_decay_logit"][saturated], 0.0) << saturated;
    }
  }
}

// Scaling q and d_output the other way, k and S the other way, and so on leaves the loss as it is: per
// token q . d_q = o . d_o and k . d_k + v . d_v = 2 beta d_beta; over a sequence
// <o, d_o> + <S_T, dS_T> = <v, d_v> + <S_0, dS_0>; and d_g_0 = <S_0, dS_0>.
TEST(GatedDeltaBackward, IdentitiesOfScalings) {
  const Case c = drawn_gated_delta("heads=2/2,dim=8x6,seq=20,gates=weak,h0=normal");
  const Arrays<double> d = evaluate<double>(c);
  const Arrays<double> forward = evaluate<double>(forward_of_gated_delta(c));
  const auto dot = [](const auto& a, const auto& b, std::size_t first, std::size_t count) {
    double sum = 0;
    for (std::size_t i = first; i < first + count; ++i) {
      sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    return sum;
  };
  double outputs = 0, values = 0;
  for (std::size_t t = 0; t < 40; ++t) {  // tokens times heads
    const double of_o = dot(forward["output"], c["d_output"], 6 * t, 6);
    const double of_v = dot(c["v"], d["d_v"], 6 * t, 6);
    EXPECT_NEAR(dot(c["q"], d["d_q"], 8 * t, 8), of_o, 1e-12);
    EXPECT_NEAR(dot(c["k"], d["d_k"], 8 * t, 8) + of_v,
                2 * static_cast<double>(c["beta"][t]) * d["d_beta"][t], 1e-12);
    outputs += of_o;
    values += of_v;
  }
  const double finals = dot(forward["final_state"], c["d_final_state"], 0, 96);
  EXPECT_NEAR(outputs + finals, values + dot(c["initial_state"], d["d_initial_state"], 0, 96),
              1e-11);
  for (std::size_t h = 0; h < 2; ++h) {
    EXPECT_NEAR(d["d_log_decay"][h], dot(c["initial_state"], d["d_initial_state"], 48 * h, 48),
                1e-12);
  }
}

// What no later output depends on has a gradient of exactly zero.
TEST(GatedDeltaBackward, TokensBehindTheLastOneThatCountsHaveNone) {
  Case c = drawn_gated_delta("heads=1/2,dim=4,seq=9,gates=mid,h0=normal,ht=0,norm=1");
  for (std::size_t i = 0; i < c["d_output"].size(); ++i) {
    if (i / 8 != 4) c["d_output"][i] = 0;
  }
  const Arrays<double> d = evaluate<double>(c);
  for (std::size_t t = 0; t < 9; ++t) {
    const auto expect_zeros = [&](const char* name, std::size_t per_token) {
      for (std::size_t i = 0; i < per_token; ++i) {
        EXPECT_EQ(d[name][per_token * t + i], 0.0) << name << " " << t;
      }
    };
    if (t != 4) expect_zeros("d_q", 4);
    if (t <= 4) continue;
    for (const char* of_value_heads : {"d_log_decay", "d_beta"}) expect_zeros(of_value_heads, 2);
    expect_zeros("d_k", 4);
    expect_zeros("d_v", 8);
  }
  EXPECT_NE(d["d_q"][16], 0.0);
  EXPECT_NE(d["d_log_decay"][0], 0.0);
}

// The reference's own rounding, certified by a wider run.
TEST(GatedDeltaBackward, Float64IsFarWithinEveryLimit) {
  for (const char* rest : {"gates=mid,h0=normal", "gates=none,betas=two,norm=1",
                           "gates=near_one,gate=logits,beta=logit", "gates=reset,gate=decay"}) {
    const Case c = generate_case(Problem::parse(
        "gated_delta_backward:heads=1/2,dim=16x24,seq=90+7,dtype=f32," + std::string(rest)));
    const Arrays<double> d = evaluate<double>(c);
    const Arrays<long double> wide = evaluate<long double>(c);
    for (const auto& [name, values] : wide) {
      long double error = 0, size = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto terms = wide.find(name + "_terms");
        const long double scale = terms != nullptr ? (*terms)[i] : values[i];
        error += (values[i] - d[name][i]) * (values[i] - d[name][i]);
        size += scale * scale;
      }
      EXPECT_TRUE(std::sqrt(error) <= 1e-12L * std::sqrt(size)) << rest << ": " << name;
    }
  }
}

}  // namespace
}  // namespace gdn::reference::testing
