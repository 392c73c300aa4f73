// cuda/chunkwise_sm90 of gated_delta_backward over its own shapes (128x128 heads, bfloat16 tokens), of which the tests of
// every implementation have few; and what only chunks of 64 tokens, three kernels and operands of 16 bits can get wrong.
// On a device of compute capability 9.0 or emulated.
#include <cmath>
#include <string>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "interface/device.h"
#include "interface/operations/gated_delta_backward.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

constexpr float kHuge = 3e38f;  // its products overflow

class BackwardSm90 : public ImplementationTest {
 protected:
  static std::string problem(const std::string& heads, const std::string& rest) {
    return "gated_delta_backward:heads=" + heads + ",dim=128,dtype=bf16," + rest;
  }
};

TEST_P(BackwardSm90, EveryLengthAroundChunks) {
  for (const char* seq : {"1+2+3", "15+16+17", "31+33", "62+63", "64", "65+66", "127+128", "129",
                          "191+192", "200+0+1"}) {
    expect_all_agree({problem("1/2", "h0=normal,gates=weak,seq=" + std::string(seq))});
  }
}

TEST_P(BackwardSm90, GatesAndEncodings) {
  for (const char* gates : {"none", "near_one", "weak", "strong", "-12", "reset", "far"}) {
    for (const char* gate : {"log_decay", "neg_log_decay", "logits,beta=logit"}) {
      expect_all_agree(
          {problem("1/2", "h0=normal,seq=100+67,gates=" + std::string(gates) + ",gate=" + gate)});
    }
  }
  for (const char* gates : {"bounded", "near_one", "mid"}) {
    expect_all_agree({problem(
        "1/2", "h0=normal,seq=100+67,gate=bounded,beta=logit2,gates=" + std::string(gates))});
  }
}

TEST_P(BackwardSm90, HeadsThatShareKeys) {
  for (const char* heads : {"1/1", "1/3", "2/4", "1/5", "3/3"}) {
    expect_all_agree({problem(heads, "h0=normal,gates=weak,seq=70+64"),
                      problem(heads, "norm=1,keys=unnormalised,gates=mid,seq=70+3")});
  }
}

// Many heads and sequences: chains take a head's V whole, with few of them its halves.
TEST_P(BackwardSm90, ChainsWholeAndInHalves) {
  for (const char* heads : {"1/1", "16/16"}) {
    for (const char* more : {"", ",layout=vk,state=bf16"}) {
      expect_all_agree({problem(heads, "h0=normal,gates=weak,seq=130" + std::string(more))});
    }
  }
}

TEST_P(BackwardSm90, StatesPoolsAndPadding) {
  for (const char* layout : {"kv", "vk"}) {
    for (const char* state : {"f32", "bf16", "f16"}) {
      for (const char* pool :
           {"slots=permuted", "slots=padding,pool_pad=16", "pool_rows=9", "ht=0"}) {
        expect_all_agree(
            {problem("1/2", "h0=normal,gates=weak,seq=70+0+3,layout=" + std::string(layout) +
                                ",state=" + state + "," + pool)});
      }
    }
  }
  expect_all_agree(
      {problem("1/2", "gates=weak,seq=70+0+3"), problem("1/2", "gates=weak,seq=70,scale=0")});
}

// d_beta of a token whose beta is 0 is not 0, and nothing else of that token is left; keys that repeat.
TEST_P(BackwardSm90, BetasOfZeroAndRepeatedKeys) {
  for (const char* betas : {"zero", "one", "mixture"}) {
    for (const char* keys : {"equal", "alternating", "zero"}) {
      expect_all_agree({problem(
          "1/2", "h0=normal,gates=mid,seq=100+5,betas=" + std::string(betas) + ",keys=" + keys)});
    }
  }
}

// beta |k|^2 of 2.2 to 2.9, of which T is made in two parts. Those of one head lie beside the record of the head before,
// on its way to memory: emulated, the copy engine is late where threads run in the reverse order.
TEST_P(BackwardSm90, KeysForWhichTheInverseIsInTwoParts) {
  for (const char* heads : {"1/2", "1/3"}) {
    const Case inputs = generate_case(Problem::parse(
        problem(heads, "h0=normal,gates=mid,seq=130,keys=unnormalised,betas=0.0172..0.0227")));
    expect_agrees(inputs);
    if (!emulated()) continue;
    const auto reversed = open_device("cuda-emulated:1");
    expect_outputs_agree(inputs, execute(implementation(), inputs, *reversed));
    open_device("cuda-emulated:0");  // the order is of all emulated devices
  }
}

TEST_P(BackwardSm90, SingleBetasOfZeroAndNearlyZero) {
  for (const float beta : {0.0f, 1e-30f, 1e-12f, 1e-6f, 1e-4f}) {
    Case inputs = generate_case(Problem::parse(problem("1/2", "h0=normal,gates=weak,seq=130")));
    for (std::size_t token : {0, 5, 63, 64, 129}) inputs["beta"][2 * token + 1] = beta;
    expect_agrees(inputs);
  }
}

// Rows of q and k of any length, zeros among them.
TEST_P(BackwardSm90, NormsAtTheEdges) {
  expect_all_agree({problem("3/3", "gates=mid,seq=40+9+1,norm=1,magnitudes=edges")});
  Case inputs = generate_case(Problem::parse(problem("1/2", "h0=normal,gates=weak,seq=70,norm=1")));
  for (std::size_t i = 0; i < 128; ++i) inputs["k"][128 * 7 + i] = inputs["q"][128 * 66 + i] = 0;
  expect_agrees(inputs);
}

TEST_P(BackwardSm90, ManyChunksThatForgetLittle) {
  expect_all_agree({problem("1/2", "h0=normal,gates=near_one,seq=1030")});
}

// What lies behind a sequence's last token is another's, or nobody's.
TEST_P(BackwardSm90, GradientsOfOneSequenceKnowNothingOfTheNext) {
  const Implementation& implementation = this->implementation();
  Case inputs = generate_case(Problem::parse(problem("1/2", "h0=normal,gates=weak,seq=70+60")));
  const Outputs alone = execute(implementation, inputs, device());
  for (std::size_t i = 70 * 128; i < 130 * 128; ++i) inputs["q"][i] = inputs["k"][i] = kHuge;
  for (std::size_t i = 70 * 256; i < 130 * 256; ++i) inputs["v"][i] = inputs["d_output"][i] = kHuge;
  const Outputs beside = execute(implementation, inputs, device());
  for (const char* name : {"d_q", "d_k"}) {
    for (std::size_t i = 0; i < 70 * 128; ++i)
      ASSERT_EQ(alone[name][i], beside[name][i]) << name << " " << i;
  }
  for (std::size_t i = 0; i < 70 * 256; ++i) ASSERT_EQ(alone["d_v"][i], beside["d_v"][i]) << i;
  for (std::size_t i = 0; i < 140; ++i) {
    ASSERT_EQ(alone["d_log_decay"][i], beside["d_log_decay"][i]) << i;
    ASSERT_EQ(alone["d_beta"][i], beside["d_beta"][i]) << i;
  }
}

std::vector<const Implementation*> backward_sm90() {
  std::vector<const Implementation*> found;
  for (const Implementation* implementation :
       implementations_of(gated_delta_backward_operation())) {
    if (implementation->description().name == "cuda/chunkwise_sm90")
      found.push_back(implementation);
  }
  return found;
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackwardSm90);
INSTANTIATE_TEST_SUITE_P(All, BackwardSm90, testing::ValuesIn(backward_sm90()), test_name);

}  // namespace
}  // namespace gdn
