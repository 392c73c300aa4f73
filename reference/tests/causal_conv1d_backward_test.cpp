// The convolution's gradients (contract 1.12) against finite differences of the forward reference in
// long double, and what holds of padding, empty sequences and windows that nobody reads.
#include "interface/operations/causal_conv1d_backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/operations/generate_case.h"
#include "harness/run/batches.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/convolution_operands.h"
#include "reference/reference.h"
#include "reference/tests/differences.h"

namespace gdn::reference::testing {
namespace {

Case drawn_convolution(const std::string& rest) {
  Case c = generate_case(Problem::parse("causal_conv1d_backward:dtype=f32," + rest));
  make_steps_exact(c);
  return c;
}

// The same call forward: every array that both operations have.
Case forward_of_convolution(const Case& c) {
  Case forward;
  forward.problem = c.problem;
  forward.problem.operation = causal_conv1d_operation();
  forward.sequence_offsets = c.sequence_offsets;
  forward.slot_index = c.slot_index;
  forward.other_indices = c.other_indices;
  for (const auto& [name, values] : c.arrays) {
    if (forward.problem.operation->find(name) != nullptr) forward[name] = values;
  }
  if (has_windows(c.problem) && !c.arrays.has("conv_state")) {
    const Operand& window = forward.problem.operation->at("conv_state");
    forward["conv_state"].assign(static_cast<std::size_t>(element_count(window, forward.problem)),
                                 std::numeric_limits<float>::quiet_NaN());
  }
  return forward;
}

// <conv_output, d_conv_output> + <new window, d_final_window> over the sequences that own a row.
long double loss_of_convolution(const Case& c, const Case& forward) {
  const Arrays<long double> made = evaluate<long double>(forward, {.threads = 1, .pairs = {}});
  long double sum = 0;
  for (std::size_t i = 0; i < c["d_conv_output"].size(); ++i) {
    sum += made["conv_output"][i] * static_cast<long double>(c["d_conv_output"][i]);
  }
  if (!c.problem.writes_conv_window()) return sum;
  const std::int64_t row = window_strides(c.problem).row;
  for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
    if (c.slot(n) < 0) continue;
    for (std::int64_t i = c.slot(n) * row; i < (c.slot(n) + 1) * row; ++i) {
      const auto at = static_cast<std::size_t>(i);
      sum += made["conv_state"][at] * static_cast<long double>(c["d_final_window"][at]);
    }
  }
  return sum;
}

void expect_gradients_of_convolution(const std::string& rest) {
  SCOPED_TRACE(rest);
  const Case c = drawn_convolution(rest);
  const Arrays<double> d = evaluate<double>(c);
  Case forward = forward_of_convolution(c);
  const auto expect_of = [&](const char* operand, const std::vector<double>& gradient) {
    expect_is_gradient(operand, forward[operand], gradient,
                       [&] { return loss_of_convolution(c, forward); });
  };
  expect_of("qkv", d["d_qkv"]);
  expect_of("conv_weight", d["d_conv_weight"]);
  if (c.problem.conv_bias) expect_of("conv_bias", d["d_conv_bias"]);
  EXPECT_EQ(d.has("d_initial_window"), c.problem.reads_conv_window());
  if (d.has("d_initial_window")) expect_of("conv_state", d["d_initial_window"]);
}

TEST(CausalConv1dBackward, WidthsAndActivationsAgainstDifferences) {
  for (const char* width : {"2", "3", "4", "9"}) {
    for (const char* more : {"", ",bias=1", ",act=none", ",bias=1,residual=1"}) {
      expect_gradients_of_convolution("channels=2,seq=5+0+1+7,width=" + std::string(width) + more);
    }
  }
}

TEST(CausalConv1dBackward, WindowsAgainstDifferences) {
  for (const char* window : {"window=carried", "window=read", "window=written", "window=none",
                             "window_layout=channels", "fresh=1", "window=read,fresh=1"}) {
    for (const char* more : {"", ",slots=padding,conv_layout=time", ",slots=permuted"}) {
      expect_gradients_of_convolution("channels=3,seq=5+0+1+2+6,bias=1," + std::string(window) +
                                      more);
    }
  }
}

// The sums of both calls, and what the later tokens leave handed to the earlier ones, are one call's.
TEST(CausalConv1dBackward, TwoCallsAreOneWhereverASequenceIsCut) {
  for (const char* more : {"window=carried", "window=read,fresh=1", "window=written", "window=none",
                           "slots=padding,width=2", "window_layout=channels,residual=1"}) {
    const Case whole = drawn_convolution("channels=3,seq=7+0+2+9,bias=1," + std::string(more));
    const Arrays<double> once = evaluate<double>(whole);
    for (std::int64_t tokens = 0; tokens <= 9; ++tokens) {
      const auto outputs_of = [](const Case& c) {
        Outputs outputs;
        for (const auto& [name, values] : evaluate<double>(c)) {
          std::vector<float>& stored = outputs[name];
          for (const double x : values) stored.push_back(static_cast<float>(x));
        }
        return outputs;
      };
      const CutAt cut = after(tokens);
      const Outputs first = outputs_of(first_part(whole, cut));
      const Outputs second = outputs_of(second_part(whole, cut, first));
      const Outputs both = joined(whole, cut, first, second);
      for (const auto& [name, values] : both) {
        ASSERT_EQ(values.size(), once[name].size()) << whole.problem.to_string() << ", " << name;
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (std::isnan(once[name][i])) continue;
          const double error = std::fabs(static_cast<double>(values[i]) - once[name][i]);
          ASSERT_TRUE(error <= 4e-6)
              << whole.problem.to_string() << ", cut after " << tokens << ", " << name << " " << i;
        }
      }
    }
  }
}

TEST(CausalConv1dBackward, PaddingHasZerosAndIsInNoSum) {
  Case c = drawn_convolution("channels=3,seq=5+4+3+2,bias=1,slots=padding");
  const Arrays<double> before = evaluate<double>(c);
  for (std::int64_t n = 0; n < c.problem.num_sequences(); ++n) {
    if (c.slot(n) >= 0) continue;
    for (std::int64_t i = 3 * c.first_token(n); i < 3 * (c.first_token(n) + c.length(n)); ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(before["d_qkv"][at], 0.0);
      c["d_conv_output"][at] *= 3;
      c["qkv"][at] -= 1;
    }
  }
  const Arrays<double> after_it = evaluate<double>(c);
  for (const char* sum : {"d_conv_weight", "d_conv_bias"}) EXPECT_EQ(before[sum], after_it[sum]);
}

TEST(CausalConv1dBackward, AnEmptySequencePassesItsWindowsGradientOn) {
  const Case c = drawn_convolution("channels=3,seq=0+5+0+0,fresh=1,slots=permuted");
  const Arrays<double> d = evaluate<double>(c);
  const std::int64_t row = window_strides(c.problem).row;
  for (const std::int64_t n : {0, 2, 3}) {
    for (std::int64_t i = c.slot(n) * row; i < (c.slot(n) + 1) * row; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool is_read = c.other_indices["has_window"][static_cast<std::size_t>(n)] != 0;
      const double expected = is_read ? static_cast<double>(c["d_final_window"][at]) : 0;
      EXPECT_EQ(d["d_initial_window"][at], expected) << "sequence " << n;
    }
  }
}

// Sums far from zero on either side: SiLU's slope is 1 or 0 there, and nothing overflows on the way.
TEST(CausalConv1dBackward, SlopesFarOut) {
  Case c = drawn_convolution("channels=1,seq=1x6,width=2,window=none");
  c["conv_weight"] = {0, 1};
  c["qkv"] = {3e38f, -3e38f, 1000, -1000, 0, 40};
  c["d_conv_output"].assign(6, 1.0f);
  const std::vector<double> expected = {1, 0, 1, 0, 0.5, 1};
  const Arrays<double> d = evaluate<double>(c);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(d["d_qkv"][i], expected[i], 1e-15) << i;
}

// The reference's own rounding, certified by a wider run.
TEST(CausalConv1dBackward, Float64IsFarWithinEveryLimit) {
  for (const char* rest : {"bias=1", "width=15,act=none", "residual=1,magnitudes=edges"}) {
    const Case c = generate_case(Problem::parse(
        "causal_conv1d_backward:channels=5,seq=90+7,dtype=f32," + std::string(rest)));
    const Arrays<double> d = evaluate<double>(c);
    const Arrays<long double> wide = evaluate<long double>(c);
    for (const auto& [name, values] : wide) {
      const auto terms = wide.find(name + "_terms");
      if (terms == nullptr) continue;
      long double error = 0, size = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        error += (values[i] - d[name][i]) * (values[i] - d[name][i]);
        size += (*terms)[i] * (*terms)[i];
      }
      EXPECT_TRUE(std::sqrt(error) <= 1e-13L * std::sqrt(size)) << rest << ": " << name;
    }
  }
}

}  // namespace
}  // namespace gdn::reference::testing
