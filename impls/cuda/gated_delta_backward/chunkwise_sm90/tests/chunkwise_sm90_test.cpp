// cuda/chunkwise_sm90 of gated_delta_backward and of gated_delta_training over their own shapes (128x128 heads, bfloat16 tokens), of which the tests of
// every implementation have few; and what only chunks of 64 tokens, three kernels and operands of 16 bits can get wrong.
// On a device of compute capability 9.0 or emulated.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/run/device_case.h"
#include "harness/run/execute.h"
#include "interface/device.h"
#include "interface/operations/gated_delta_backward.h"
#include "interface/operations/gated_delta_training.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

constexpr float kHuge = 3e38f;  // its products overflow

class BackwardSm90 : public ImplementationTest {
 protected:
  std::string problem(const std::string& heads, const std::string& rest,
                      const std::string& dim = "128") const {
    return to_string(implementation().description().operation) + ":heads=" + heads + ",dim=" + dim +
           ",dtype=bf16," + rest;
  }
};
/// Of the gradients and of a training step, planned and with sequences whole.
class BackwardSm90Forms : public BackwardSm90 {};
/// Of a training step, whose forward call these kernels make too.
class TrainingSm90 : public BackwardSm90 {};

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

// Long enough, with few enough heads, for chains to be cut: heads and stretches that forget at once, that take some
// chunks, and that never do, beside each other. Initial states and gradients of final ones of two sizes: large ones show
// what is left of them, and hide small faults of what comes after.
TEST_P(BackwardSm90Forms, PiecesNearAndFar) {
  constexpr float kAtOnce = -1.f, kSlowly = -0.12f, kNever = 0.f;  // log_decay of a token
  struct Gates {
    const char* name;
    float head[2];      // log_decay of even and odd heads, but in the stretch:
    double begin, end;  // parts of all tokens
    float stretch;
  };
  constexpr Gates kGates[] = {{"all near", {kAtOnce, kSlowly}, 0, 0, 0.f},
                              {"one head far", {kSlowly, kNever}, 0, 0, 0.f},
                              {"far at the end", {kAtOnce, kSlowly}, 0.5, 1, kNever},
                              {"far at the beginning", {kAtOnce, kSlowly}, 0, 0.5, kNever},
                              {"all far", {kNever, kNever}, 0, 0, 0.f}};
  for (const char* shape : {"seq=1160,h0=normal", "seq=700+0+450,h0=large,slots=padding"}) {
    Case inputs = generate_case(Problem::parse(problem("1/2", std::string("gates=none,") + shape)));
    const bool large = inputs.problem.num_sequences() > 1;
    for (float& x : inputs["d_final_state"]) x *= large ? 1e6f : 1.f;
    const std::int64_t tokens = inputs.problem.total_tokens();
    for (const Gates& gates : kGates) {
      SCOPED_TRACE(gates.name);
      for (std::int64_t token = 0; token < tokens; ++token) {
        const double part = static_cast<double>(token) / static_cast<double>(tokens);
        for (std::int64_t head = 0; head < 2; ++head)
          inputs["log_decay"][static_cast<std::size_t>(token * 2 + head)] =
              part >= gates.begin && part < gates.end ? gates.stretch : gates.head[head];
      }
      expect_agrees(inputs);
    }
  }
}

// Heads of other than 128x128: columns of K and Q past Dk, slices of V and a panel past Dv, whose sums over slices make
// the gradients of keys, gates and betas.
TEST_P(BackwardSm90Forms, HeadDims) {
  for (const char* dim : {"64", "96x192", "128x256", "104x320", "128x64"}) {
    for (const char* more :
         {"1/2,gates=weak,layout=kv", "1/1,gates=mid,norm=1,layout=vk,state=bf16",
          "2/2,gates=mid,betas=mixture,slots=padding,gate=logits"}) {
      const std::string options = more;
      const std::size_t comma = options.find(',');
      expect_all_agree({problem(options.substr(0, comma),
                                "h0=normal,seq=70+0+3+64" + options.substr(comma), dim)});
    }
  }
  for (const char* dim : {"96x192", "128x256"})
    expect_agrees(
        generate_case(Problem::parse(problem("1/1", "h0=normal,gates=strong,seq=530", dim))));
}

// Which chunks beside a piece are counted shows where they differ: the nearest forgets nothing, the next one all, but for
// what its own first and last tokens leave.
TEST_P(BackwardSm90Forms, NearestChunksOfAPieceAreCounted) {
  Case inputs = generate_case(Problem::parse(problem("1/1", "h0=normal,gates=none,seq=1100")));
  DeviceCase on_device(inputs, device());
  const std::string choice =
      implementation().plan(inputs.problem, on_device.arguments(), device())->info().choice;
  const std::int64_t named = std::stoll(choice.substr(choice.find("piece_chunks=") + 13)),
                     each = named == 0 ? 5 : named;
  for (std::int64_t token = 0; token < inputs.problem.total_tokens(); ++token) {
    const std::int64_t chunk = token / 64 % each;
    const bool is_last = chunk == each - 2, forgets = chunk == 1 || is_last;
    inputs["log_decay"][static_cast<std::size_t>(token)] = forgets ? -1.f : 0.f;
    if ((chunk == 1 && token % 64 == 0) || (is_last && token % 64 == 63)) {
      for (std::size_t v = 0; v < 128; ++v) {
        inputs["d_output"][static_cast<std::size_t>(token) * 128 + v] *= 1000.f;
        inputs["v"][static_cast<std::size_t>(token) * 128 + v] *= 1000.f;
      }
    }
  }
  expect_agrees(inputs);
}

// Updates with beta |k|^2 above 2 make states larger: chunks of them forget only where their decays outweigh that. Of
// one key again and again a token leaves 0.725 (2 |k|^2 - 1) = 0.997 of what lies along it, a chunk 0.84; by the
// decays alone it would be 2^-30, and two chunks would do.
TEST_P(BackwardSm90, UpdatesThatGrowAreNotForgotten) {
  Case inputs = generate_case(
      Problem::parse(problem("1/1", "h0=normal,gates=-0.322,seq=840,betas=two,keys=equal")));
  for (float& x : inputs["k"]) x *= 1.09f;
  expect_agrees(inputs);
}

TEST_P(BackwardSm90Forms, CutsALongSequenceUnlessItMustNot) {
  const Case inputs = generate_case(Problem::parse(problem("1/1", "seq=530")));
  DeviceCase on_device(inputs, device());
  const auto plan = implementation().plan(inputs.problem, on_device.arguments(), device());
  EXPECT_EQ(plan->info().choice.find("piece_chunks=0") != std::string::npos,
            implementation().description().batch_invariant)
      << plan->info().choice;
}

TEST_P(TrainingSm90, OutputsOfEveryLengthAroundChunks) {
  for (const char* seq : {"1+2+3", "62+63", "64", "65+66", "127+128", "200+0+1"}) {
    for (const char* heads : {"1/2", "16/16"})
      expect_all_agree({problem(heads, "h0=normal,gates=weak,seq=" + std::string(seq))});
  }
}

TEST_P(TrainingSm90, FinalStatesPoolsAndPadding) {
  for (const char* more : {"layout=kv,state=f32,slots=padding", "layout=vk,state=bf16,pool_rows=9",
                           "layout=kv,state=f16,slots=permuted,pool_pad=16", "ht=0,layout=vk"})
    expect_all_agree({problem("1/2", "h0=normal,gates=weak,seq=70+0+3," + std::string(more))});
  expect_all_agree({problem("1/3", "gates=mid,seq=70+0+3,norm=1,gate=logits,beta=logit,scale=0.5"),
                    problem("1/2", "gates=strong,seq=130+64,keys=alternating,betas=one")});
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

using Forms = std::vector<const Implementation*>;
/// Those of an operation, the planned one first.
Forms forms_of(Operation operation) {
  Forms found;
  for (const Implementation* implementation : implementations_of(operation)) {
    const std::string& name = implementation->description().name;
    if (name == "cuda/chunkwise_sm90" || name == "cuda/chunkwise_sm90_invariant")
      found.push_back(implementation);
  }
  return found;
}
Forms first_of(Forms forms) {
  forms.resize(std::min<std::size_t>(forms.size(), 1));
  return forms;
}
Forms both(Forms a, const Forms& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackwardSm90);
INSTANTIATE_TEST_SUITE_P(All, BackwardSm90,
                         testing::ValuesIn(first_of(forms_of(gated_delta_backward_operation()))),
                         test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackwardSm90Forms);
INSTANTIATE_TEST_SUITE_P(All, BackwardSm90Forms,
                         testing::ValuesIn(both(forms_of(gated_delta_backward_operation()),
                                                forms_of(gated_delta_training_operation()))),
                         operation_and_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TrainingSm90);
INSTANTIATE_TEST_SUITE_P(All, TrainingSm90,
                         testing::ValuesIn(first_of(forms_of(gated_delta_training_operation()))),
                         test_name);

}  // namespace
}  // namespace gdn
