// Every implementation of causal_conv1d_backward against the float64 reference (contract section 1.12).
#include "interface/operations/causal_conv1d_backward.h"

#include <cmath>
#include <string>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

class CausalConv1dBackward : public ImplementationTest {
 protected:
  static std::string problem(const std::string& rest) { return "causal_conv1d_backward:" + rest; }
};

TEST_P(CausalConv1dBackward, WidthsBiasAndActivation) {
  for (const char* width : {"2", "3", "4", "5", "9", "15"}) {
    for (const char* more : {"", ",bias=1", ",act=none", ",bias=1,residual=1"}) {
      expect_all_agree(
          {problem("channels=36,seq=70+1+0+17,dtype=f32,width=" + std::string(width) + more)});
    }
  }
}

TEST_P(CausalConv1dBackward, SequencesShorterThanTheWindow) {
  for (const char* width : {"2", "4", "15"}) {
    for (const char* window : {"carried", "read", "written", "none"}) {
      expect_all_agree({problem("channels=5,seq=0+1+2+3+4+13+14+15+16,dtype=f32,width=" +
                                std::string(width) + ",window=" + window)});
    }
  }
}

// Around the ends of tiles, and many of them.
TEST_P(CausalConv1dBackward, LengthsAndRaggedBatches) {
  for (const char* seq : {"1", "63+64+65", "127+1+129", "0+0", "17x1", "300", "66+0+61+2"}) {
    expect_all_agree({problem("channels=8,dtype=bf16,bias=1,seed=3,seq=" + std::string(seq))});
  }
}

TEST_P(CausalConv1dBackward, ChannelsOfVectorsOrNot) {
  for (const char* channels : {"1", "3", "36", "131", "516", "600"}) {
    for (const char* dtype : {"f32", "bf16", "f16"}) {
      expect_all_agree({problem("channels=" + std::string(channels) + ",seq=9+70,dtype=" + dtype)});
    }
  }
}

TEST_P(CausalConv1dBackward, TypesLayoutsAndSlots) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* more :
         {",state=bf16", ",state=f16,slots=permuted", ",slots=padding,bias=1", ",conv_layout=time",
          ",conv_layout=time,slots=padding,residual=1", ",window_layout=channels,slots=permuted",
          ",weights=f32,bias=1", ",fresh=1,slots=padding",
          ",fresh=1,window=read,window_layout=channels", ",window=none,slots=padding",
          ",pool_rows=12,slots=permuted"}) {
      expect_all_agree(
          {problem("channels=36,seq=9+0+1+33+2+70,dtype=" + std::string(dtype) + more)});
    }
  }
}

// Sums of thousands of tokens of one sign, and sums that cancel.
TEST_P(CausalConv1dBackward, LongSums) {
  Case c = generate_case(Problem::parse(problem("channels=4,seq=1000+500,dtype=f32,bias=1")));
  expect_agrees(c);
  for (const char* name : {"qkv", "d_conv_output"}) {
    for (float& x : c[name]) x = std::abs(x);
  }
  expect_agrees(c);
}

// SiLU's slope is 1 and 0 far out, zero near -1.28, and nothing overflows on the way.
TEST_P(CausalConv1dBackward, SlopesFarOut) {
  Case c = generate_case(Problem::parse(problem("channels=4,seq=1x12,dtype=f32,width=2")));
  const float sums[] = {3e38f, -3e38f, 1000, -1000, -1.2784645f, 0, 40, -40, 88, -88, -103, 17};
  for (std::size_t i = 0; i < c["qkv"].size(); ++i) c["qkv"][i] = sums[i / 4];
  for (std::size_t i = 0; i < c["conv_weight"].size(); ++i)
    c["conv_weight"][i] = i % 2 == 0 ? 0 : 1;
  // Of the weights' gradients, which are products of the inputs: none that overflow.
  for (float& x : c["d_conv_output"]) x *= 1e-3f;
  expect_agrees(c);
}

// Everything is linear in what comes from behind: twice the gradient behind is twice every gradient, bit
// by bit, and none behind is none before.
TEST_P(CausalConv1dBackward, IsLinearInTheGradientBehind) {
  Case c = generate_case(
      Problem::parse(problem("channels=36,seq=40+3+0+70,dtype=bf16,bias=1,slots=permuted")));
  const Outputs once = execute(implementation(), c, device());
  for (const float factor : {2.0f, 0.0f}) {
    Case scaled = c;
    for (const char* name : {"d_conv_output", "d_final_window"}) {
      for (float& x : scaled[name]) x *= factor;
    }
    for (const auto& [name, values] : execute(implementation(), scaled, device())) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(once[name][i])) continue;  // a row that no sequence owns
        ASSERT_EQ(values[i], factor * once[name][i])
            << c.problem.to_string() << ", " << name << " " << i;
      }
    }
  }
}

GDN_INSTANTIATE_FOR(CausalConv1dBackward, causal_conv1d_backward_operation());

}  // namespace
}  // namespace gdn
