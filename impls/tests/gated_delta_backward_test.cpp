// Every implementation of gated_delta_backward against the float64 reference (contract section 1.4).
#include "interface/operations/gated_delta_backward.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

class GatedDeltaBackward : public ImplementationTest {
 protected:
  /// A case of the problem, of small heads and float32 or of what kernels for tensor cores take: the first that is
  /// supported; none where neither is.
  std::optional<Case> supported_case(const std::string& rest) const {
    for (const char* shape : {"dim=16,dtype=f32,", "dim=128,dtype=bf16,"}) {
      const Problem problem = Problem::parse("gated_delta_backward:" + std::string(shape) + rest);
      if (implementation().supports(problem)) return generate_case(problem);
    }
    return std::nullopt;
  }
};

std::string problem(const std::string& rest) { return "gated_delta_backward:" + rest; }

TEST_P(GatedDeltaBackward, EncodingsAndDistributions) {
  for (const char* gates : {"none", "near_one", "weak", "mid", "strong", "real", "reset", "far"}) {
    for (const char* gate : {"log_decay", "decay", "neg_log_decay", "logits"}) {
      for (const char* beta : {"beta", "logit"}) {
        expect_all_agree({problem("heads=1/2,dim=16x24,seq=70,dtype=f32,h0=normal,gates=" +
                                  std::string(gates) + ",gate=" + gate + ",beta=" + beta)});
      }
    }
  }
}

TEST_P(GatedDeltaBackward, BoundedGatesAndBetasUpToTwo) {
  for (const char* gates : {"bounded", "bounded,bound=0.5", "none", "near_one", "mid", "real"}) {
    for (const char* beta : {"beta", "logit2,betas=wide", "logit2,betas=two"}) {
      expect_all_agree(
          {problem("heads=1/2,dim=16x24,seq=70,dtype=f32,h0=normal,gate=bounded,gates=" +
                   std::string(gates) + ",beta=" + beta)});
    }
  }
}

// Rates from exp(-20) to beyond float32, and arguments of exactly zero: gradients of gates that have
// saturated are zeros.
TEST_P(GatedDeltaBackward, BoundedGatesFarOut) {
  std::optional<Case> found = supported_case("heads=1/4,seq=60,h0=normal,gate=bounded");
  if (!found) GTEST_SKIP() << "no shape of it is supported";
  Case& inputs = *found;
  inputs["A_log"] = {-20, 20, 80, -100};
  inputs["dt_bias"].assign(4, 0.0f);
  const float far[] = {0, 1, -0.5f, 300, -300, 20, -20};
  std::vector<float>& logits = inputs["bounded_decay_logit"];
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = far[i / 4 % 7];
  expect_agrees(inputs);
}

TEST_P(GatedDeltaBackward, DtypesStatesLayoutsAndSlots) {
  for (const char* dtype : {"f32", "bf16", "f16"}) {
    for (const char* state : {"f32", "bf16", "f16"}) {
      for (const char* more : {"", ",layout=vk", ",slots=permuted", ",slots=padding,pool_pad=5",
                               ",ht=0", ",norm=1,keys=unnormalised", ",scale=2"}) {
        expect_all_agree({problem("heads=2/4,dim=24x16,seq=9+0+1+33+2,h0=normal,gates=mid,dtype=" +
                                  std::string(dtype) + ",state=" + state + more)});
      }
    }
  }
  expect_all_agree({problem("heads=2/4,dim=16,seq=9+3,dtype=f32,gates=mid")});  // without a state
}

TEST_P(GatedDeltaBackward, HeadsAndRaggedBatches) {
  for (const char* heads : {"1/1", "3/3", "1/5", "2/6"}) {
    for (const char* seq : {"1", "2", "17+0+1+64+3", "0+0", "45x1", "30x2", "1x150"}) {
      expect_all_agree({problem("heads=" + std::string(heads) + ",dim=16x8,seq=" + seq +
                                ",dtype=f32,gates=mid,h0=normal,seed=3")});
    }
  }
}

// Of one element, and more than a block takes at a time.
TEST_P(GatedDeltaBackward, HeadDims) {
  for (const char* dim : {"1x1", "64x136", "72x80", "128x72", "200x40", "256x33"}) {
    for (const char* more : {"", ",layout=vk,norm=1"}) {
      expect_all_agree({problem(
          "heads=1/2,seq=11+3,dtype=f32,h0=normal,gates=mid,dim=" + std::string(dim) + more)});
    }
  }
}

// Of chunkwise forms: sequences of several chunks, that end anywhere in one.
TEST_P(GatedDeltaBackward, ChunksAndTheirEnds) {
  for (const char* lengths :
       {"chunk=16,seq=15+16+17+40", "chunk=32,seq=31+32+70", "seq=63+64+65", "seq=200"}) {
    for (const char* gates : {"weak", "mid,gate=decay", "reset"}) {
      expect_all_agree({problem(
          "heads=1/2,dim=16x24,dtype=f32,h0=normal,gates=" + std::string(gates) + "," + lengths)});
    }
  }
}

// The gradient of a decay is that of a log decay by the decay, but not where that is zero or nearly so.
TEST_P(GatedDeltaBackward, DecaysOfNearlyZero) {
  std::optional<Case> found = supported_case("heads=1/2,seq=100,h0=normal,gate=decay");
  if (!found) GTEST_SKIP() << "no shape of it is supported";
  Case& inputs = *found;
  const float decays[] = {1, 0.9f, 0, 1, 1e-38f, 0.5f, 1e-45f, 1, 1, 1e-19f, 0.99f};
  std::vector<float>& decay = inputs["decay"];
  for (std::size_t i = 0; i < decay.size(); ++i) decay[i] = decays[i / 2 % 11];
  expect_agrees(inputs);
}

TEST_P(GatedDeltaBackward, HardKeysAndBetas) {
  for (const char* keys : {"equal", "alternating", "correlated", "zero"}) {
    for (const char* betas : {"zero", "one", "two", "wide"}) {
      expect_all_agree({problem("heads=1/2,dim=32,seq=100,dtype=f32,gates=near_one,keys=" +
                                std::string(keys) + ",betas=" + betas)});
    }
  }
}

// Everything is linear in what comes from behind: no gradient behind, none before.
TEST_P(GatedDeltaBackward, NoGradientBehindIsNoneBefore) {
  std::optional<Case> found =
      supported_case("heads=1/2,seq=40+3,h0=normal,ht=0,gate=logits,beta=logit,norm=1");
  if (!found) GTEST_SKIP() << "no shape of it is supported";
  Case& c = *found;
  std::fill(c["d_output"].begin(), c["d_output"].end(), 0.0f);
  for (const auto& [name, values] : execute(implementation(), c, device())) {
    for (const float x : values) ASSERT_EQ(x, 0.0f) << name;
  }
}

// A second order of magnitude in d_output and d_final_state is one in every gradient, bit by bit.
TEST_P(GatedDeltaBackward, TwiceTheGradientBehindIsTwiceTheGradient) {
  std::optional<Case> found =
      supported_case("heads=1/2,seq=40+3,h0=normal,gate=logits,beta=logit,norm=1");
  if (!found) GTEST_SKIP() << "no shape of it is supported";
  Case& c = *found;
  const Outputs once = execute(implementation(), c, device());
  for (const char* name : {"d_output", "d_final_state"}) {
    for (float& x : c[name]) x *= 2;
  }
  for (const auto& [name, values] : execute(implementation(), c, device())) {
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 2 * once[name][i]) << name;
  }
}

GDN_INSTANTIATE_FOR(GatedDeltaBackward, gated_delta_backward_operation());

class TwoLevels : public ImplementationTest {};

std::vector<const Implementation*> forms_of_two_levels() {
  std::vector<const Implementation*> all = implementations_of(gated_delta_backward_operation());
  all.erase(std::remove_if(all.begin(), all.end(),
                           [](const Implementation* one) {
                             return one->description().name != "cuda/chunkwise_two_level";
                           }),
            all.end());
  return all;
}

// States that are made again between those that were kept have the bits they had, whatever the tiles' ends, and
// in every group of heads, the last of which is smaller.
TEST_P(TwoLevels, HaveTheBitsOfOne) {
  const Implementation& one_level =
      find_implementation(gated_delta_backward_operation(), "cuda/chunkwise");
  for (const char* chunk : {"16", "32", "64"}) {
    const Case c = generate_case(Problem::parse(problem(
        "heads=1/9,dim=16x24,dtype=bf16,seq=3+0+256+511+65+20+7,h0=normal,slots=padding,gates="
        "weak,chunk=" +
        std::string(chunk))));
    SCOPED_TRACE(c.problem.to_string());
    const Outputs expected = execute(one_level, c, device());
    for (const auto& [name, values] : execute(implementation(), c, device())) {
      EXPECT_TRUE(same_bits(values, expected[name])) << name;
    }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TwoLevels);
INSTANTIATE_TEST_SUITE_P(All, TwoLevels, testing::ValuesIn(forms_of_two_levels()), test_name);

}  // namespace
}  // namespace gdn
