// The gradients of a layer (contract 1.15) against finite differences of the forward layer in long double,
// against those of its steps, and what stands beside them.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/operations/generate_case.h"
#include "interface/operations/convolution_operands.h"
#include "interface/operations/gated_delta_layer_backward.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/errors.h"
#include "reference/reference.h"
#include "reference/tests/differences.h"

namespace gdn::reference::testing {
namespace {

// The norm of a short row of q or k, behind SiLU, has large derivatives of high order.
constexpr float kSmallStep = 0x1p-12f;

constexpr const char* kLayerBackward = "gated_delta_layer_backward:";

Case drawn_layer_backward(const std::string& rest) {
  Case c = generate_case(Problem::parse(kLayerBackward + ("dtype=f32," + rest)));
  make_steps_exact(c);
  if (c.problem.gate_encoding == GateEncoding::log_decay) {
    for (float& x : c["log_decay"]) x = std::fmin(x, -0x1p-4f);
  }
  if (c.problem.beta_encoding == BetaEncoding::beta) {
    for (float& x : c["beta"]) x = std::fmin(std::fmax(x, 0x1p-4f), 2 - 0x1p-4f);
  }
  return c;
}

// <output, d_output> + <final_state, d_final_state> + <new window, d_final_window>, of the sequences that
// own a row.
long double loss_of_layer(const Case& c, const Case& forward) {
  const Problem& p = c.problem;
  const Arrays<long double> made = evaluate<long double>(forward, {.threads = 1, .pairs = {}});
  long double sum = 0;
  for (std::size_t i = 0; i < c["d_output"].size(); ++i) {
    sum += made["output"][i] * static_cast<long double>(c["d_output"][i]);
  }
  const auto add_rows = [&](const char* pool, const char* gradient, std::int64_t stride,
                            std::int64_t used) {
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      for (std::int64_t i = 0; c.slot(n) >= 0 && i < used; ++i) {
        const auto at = static_cast<std::size_t>(c.slot(n) * stride + i);
        sum += made[pool][at] * static_cast<long double>(c[gradient][at]);
      }
    }
  };
  if (p.final_state) {
    const std::int64_t stride = p.state_row_stride();
    add_rows("final_state", "d_final_state", stride, stride - p.pool_row_padding);
  }
  if (p.writes_conv_window()) {
    const std::int64_t stride = window_strides(p).row;
    add_rows("conv_state", "d_final_window", stride, stride);
  }
  return sum;
}

std::string gradient_name(const Operand& operand) {
  if (operand.name == "conv_state") return "d_initial_window";
  return "d_" + operand.name;
}

void expect_gradients_of_layer(const std::string& rest) {
  SCOPED_TRACE(rest);
  const Case c = drawn_layer_backward(rest);
  const Arrays<double> d = evaluate<double>(c);
  Case forward = layer_of(c);
  if (!c.problem.reads_conv_window() && c.problem.writes_conv_window()) {
    forward["conv_state"].resize(
        static_cast<std::size_t>(c.problem.num_pool_rows() * window_strides(c.problem).row));
  }
  int compared = 0;
  for (const Operand& operand : c.problem.operation->operands) {
    const bool has_gradient = c.problem.operation->find(gradient_name(operand)) != nullptr;
    if (operand.role != Role::input || !has_gradient || !is_present(operand, c.problem)) continue;
    if (!is_read(operand, c.problem)) continue;
    expect_is_gradient(
        operand.name, forward[operand.name], d[gradient_name(operand)],
        [&] { return loss_of_layer(c, forward); }, kSmallStep);
    ++compared;
  }
  EXPECT_GE(compared, 4);
}

TEST(GatedDeltaLayerBackward, StatesWindowsAndNormsAgainstDifferences) {
  for (const char* options : {"ht=0,window=none", "h0=normal", "h0=normal,ht=0,window=read",
                              "h0=normal,window=written,bias=1", "h0=normal,gated_norm=1",
                              "gated_norm=1,ht=0,window=none,norm_gate=sigmoid2,norm_eps=0.01"}) {
    expect_gradients_of_layer("heads=1/2,dim=3x4,seq=5+0+2,gates=mid," + std::string(options));
  }
}

TEST(GatedDeltaLayerBackward, EncodingsAndOptionsAgainstDifferences) {
  for (const char* options :
       {"gate=logits,beta=logit,h0=normal,gated_norm=1", "gate=bounded,bound=2,beta=logit2",
        "slots=permuted,pool_pad=3,layout=vk,h0=normal,fresh=1",
        "slots=padding,window_layout=channels,width=2,gated_norm=1,h0=normal",
        "act=none,scale=0.5,width=3,bias=1"}) {
    expect_gradients_of_layer("heads=1/2,dim=4x3,seq=4+1+3,gates=mid," + std::string(options));
  }
}

// Tokens of padding have gradients of zero, and are in no sum.
TEST(GatedDeltaLayerBackward, PaddingHasGradientsOfZero) {
  for (const char* norm : {"", ",gated_norm=1"}) {
    Case c = drawn_layer_backward("heads=1/2,dim=4,seq=3+4+5,gates=mid,slots=padding,h0=normal" +
                                  std::string(norm));
    const Arrays<double> d = evaluate<double>(c);
    std::int64_t padding = 0;
    while (c.slot(padding) >= 0) ++padding;
    const auto expect_zeros = [&](const std::string& name, std::int64_t per_token) {
      const std::int64_t first = c.first_token(padding) * per_token;
      for (std::int64_t i = 0; i < c.length(padding) * per_token; ++i) {
        EXPECT_EQ(d[name][static_cast<std::size_t>(first + i)], 0.0) << name;
      }
    };
    expect_zeros("d_qkv", c.problem.conv_channels());
    expect_zeros("d_log_decay", 2);
    expect_zeros("d_beta", 2);
    if (c.problem.gated_norm) expect_zeros("d_z", 8);
    for (std::int64_t t = c.first_token(padding); t < c.first_token(padding + 1); ++t) {
      for (std::int64_t i = 0; i < 8; ++i) c["d_output"][static_cast<std::size_t>(8 * t + i)] += 1;
    }
    const Arrays<double> of_others = evaluate<double>(c);
    EXPECT_EQ(d["d_conv_weight"], of_others["d_conv_weight"]);
    if (!c.problem.gated_norm) continue;
    EXPECT_EQ(d["d_norm_weight"], of_others["d_norm_weight"]);
  }
}

// Of a sample, gradients of its key heads' channels alone are numbers, and those that the whole has.
TEST(GatedDeltaLayerBackward, ASampleHasTheGradientsOfTheWhole) {
  const Case c = drawn_layer_backward("heads=2/4,dim=4x3,seq=6+3,gates=mid,h0=normal,gated_norm=1");
  const Arrays<double> whole = evaluate<double>(c);
  const Arrays<double> sample = evaluate<double>(c, {.threads = 1, .pairs = {{0, 3}}});
  std::int64_t numbers = 0;
  for (std::size_t i = 0; i < whole["d_qkv"].size(); ++i) {
    if (std::isnan(sample["d_qkv"][i])) continue;
    EXPECT_EQ(sample["d_qkv"][i], whole["d_qkv"][i]);
    ++numbers;
  }
  EXPECT_EQ(numbers, 6 * (2 * 4 + 2 * 3));
  for (std::size_t t = 0; t < 6; ++t) {
    EXPECT_EQ(sample["d_log_decay"][4 * t + 3], whole["d_log_decay"][4 * t + 3]);
    EXPECT_TRUE(std::isnan(sample["d_log_decay"][4 * t]));
  }
}

// Of a sample, d_qkv is judged in the channels that were evaluated: a fault there is seen, beside others that
// nobody looks at.
TEST(GatedDeltaLayerBackward, OfASampleTheChannelsThatWereEvaluatedAreJudged) {
  const Case c = drawn_layer_backward("heads=2/4,dim=4x3,seq=6+3,gates=mid,h0=normal");
  const EvaluationOptions options{.threads = 1, .pairs = {{0, 3}}};
  const Arrays<double> sample = evaluate<double>(c, options);
  Outputs outputs;
  for (const auto& [name, values] : evaluate<double>(c)) {
    if (c.problem.operation->find_output(name) == nullptr) continue;
    outputs[name].assign(values.begin(), values.end());
  }
  const auto error_of_d_qkv = [&] {
    const Conditioning conditioning = measure_conditioning(c, sample, options);
    const ErrorReport report = compare(c, sample, outputs, conditioning, options);
    EXPECT_EQ(report.reference_non_finite, 0);
    for (const OutputErrors& output : report.outputs) {
      if (output.name() == "d_qkv") return output.units[output.worst_unit].error.relative_l2;
    }
    ADD_FAILURE() << "d_qkv is not judged";
    return 0.0;
  };
  EXPECT_LT(error_of_d_qkv(), 1e-6);
  outputs["d_qkv"][0] += 100;  // a query of key head 0; the pair is of key head 1
  EXPECT_LT(error_of_d_qkv(), 1e-6);
  outputs["d_qkv"][4] += 100;  // of key head 1
  EXPECT_GT(error_of_d_qkv(), 1.0);
}

// A row in front of the norm is uncertain by its products' size, and so is its gradient: the terms of every
// gradient behind it say so. Without the norm a state's gradient has no terms but itself.
TEST(GatedDeltaLayerBackward, TermsHoldWhatRowsInFrontOfTheNormAreWrongBy) {
  const auto growth_of = [](const std::string& more) {
    const Case c = drawn_layer_backward("heads=1/1,dim=16,seq=8,gates=mid,h0=normal,ht=0" + more);
    const Arrays<double> d = evaluate<double>(c);
    double values = 0, terms = 0;
    for (std::size_t i = 0; i < d["d_initial_state"].size(); ++i) {
      values += d["d_initial_state"][i] * d["d_initial_state"][i];
      terms += d["d_initial_state_terms"][i] * d["d_initial_state_terms"][i];
    }
    return std::sqrt(terms / values);
  };
  EXPECT_NEAR(growth_of(""), 1.0, 1e-12);
  EXPECT_GT(growth_of(",gated_norm=1"), 1.1);
  EXPECT_LT(growth_of(",gated_norm=1"), 10.0);
}

// The reference's own rounding, certified by a wider run.
TEST(GatedDeltaLayerBackward, Float64IsFarWithinEveryLimit) {
  for (const char* rest : {"gates=mid,h0=normal", "gates=none,betas=two,gated_norm=1",
                           "gates=near_one,gate=logits,beta=logit,gated_norm=1"}) {
    const Case c = generate_case(Problem::parse(
        kLayerBackward + ("heads=1/2,dim=16x24,seq=90+7,dtype=f32," + std::string(rest))));
    const Arrays<double> d = evaluate<double>(c);
    const Arrays<long double> wide = evaluate<long double>(c);
    for (const auto& [name, values] : wide) {
      long double error = 0, size = 0;
      const auto* terms = wide.find(name + "_terms");
      for (std::size_t i = 0; i < values.size(); ++i) {
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
