// Every implementation of gated_delta against the float64 recurrence, over every axis of contract
// section 1.1.
#include "interface/operations/gated_delta.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/inputs/draw.h"
#include "harness/operations/generate_case.h"
#include "harness/run/batches.h"
#include "harness/run/execute.h"
#include "interface/operations/recurrence_operands.h"
#include "interface/stochastic_rounding.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

using GatedDelta = ImplementationTest;

std::vector<std::string> with_each(const std::string& problem, const std::string& field,
                                   const std::vector<std::string>& values) {
  std::vector<std::string> problems;
  for (const std::string& value : values) problems.push_back(problem + "," + field + "=" + value);
  return problems;
}

const std::vector<std::string> kLengths = {"0",  "1",  "2",  "3",  "15",  "16",  "17",  "31",
                                           "33", "63", "64", "65", "127", "128", "129", "257"};

TEST_P(GatedDelta, EveryLengthAroundChunkBoundaries) {
  expect_all_agree(with_each("gated_delta:heads=1/2,dim=64,dtype=f32,gates=mid", "seq", kLengths));
  expect_all_agree(
      with_each("gated_delta:heads=1/2,dim=64,dtype=bf16,gates=mid,h0=normal", "seq", kLengths));
}

TEST_P(GatedDelta, RaggedBatchesWithEmptySequences) {
  expect_all_agree({
      "gated_delta:heads=2/4,dim=64,seq=0+257+1+64+0+0+63+130,dtype=f32,gates=mid,h0=normal",
      "gated_delta:heads=2/4,dim=64,seq=0+257+1+64+0+0+63+130,dtype=bf16,gates=mid,h0=absent",
      "gated_delta:heads=1/1,dim=64,seq=3x0,dtype=f32,gates=mid,h0=normal",
      "gated_delta:heads=2/4,dim=64,seq=17x1,dtype=bf16,gates=real,h0=normal",  // decode
  });
}

TEST_P(GatedDelta, GroupedValueHeads) {
  const std::string lengths = emulated() ? "70+3" : "70+129";
  expect_all_agree(with_each("gated_delta:dim=64,dtype=f32,gates=mid,h0=normal,seq=" + lengths,
                             "heads", {"2/2", "2/4", "2/6", "1/4", "3/3"}));
  expect_all_agree(with_each("gated_delta:dim=128,dtype=bf16,gates=mid,seq=" + lengths, "heads",
                             {"1/1", "2/4", "1/3", "1/4"}));
}

TEST_P(GatedDelta, HeadDims) {
  const std::vector<std::string> dims = {"64x64",   "128x128", "96x192", "256x256", "60x100",
                                         "200x400", "64x128",  "128x64", "1x1",     "16x7"};
  for (const char* dtype : {"f32", "bf16"}) {
    expect_all_agree(with_each("gated_delta:heads=1,gates=mid,h0=normal,dtype=" +
                                   std::string(dtype) + (emulated() ? ",seq=133" : ",seq=197"),
                               "dim", dims));
  }
}

TEST_P(GatedDelta, GateDistributions) {
  for (const char* dtype : {"f32", "bf16"}) {
    expect_all_agree(
        with_each("gated_delta:heads=1/2,dim=64,h0=normal,dtype=" + std::string(dtype) +
                      (emulated() ? ",seq=130+65" : ",seq=200+65"),
                  "gates", {"real", "none", "weak", "near_one", "strong", "mid", "reset", "tiny"}));
  }
}

TEST_P(GatedDelta, BetaDistributions) {
  expect_all_agree(with_each("gated_delta:heads=1/2,dim=64,seq=200+65,dtype=f32,gates=mid", "betas",
                             {"sigmoid", "zero", "one", "two", "wide"}));
}

TEST_P(GatedDelta, KeyDistributions) {
  for (const char* betas : {"sigmoid", "one", "wide"}) {
    expect_all_agree(
        with_each("gated_delta:heads=1/2,dim=64,dtype=f32,gates=mid,betas=" + std::string(betas) +
                      (emulated() ? ",seq=130+65" : ",seq=200+65"),
                  "keys", {"unit", "correlated", "equal", "alternating", "zero"}));
  }
  expect_all_agree(
      {"gated_delta:heads=1/2,dim=64,seq=200,dtype=f32,gates=mid,keys=unnormalised,"
       "norm=1",
       "gated_delta:heads=1/2,dim=64,seq=200,dtype=f32,gates=mid,keys=zero,norm=1"});
}

TEST_P(GatedDelta, TokenStateAndOutputDtypes) {
  for (const char* token : {"f32", "bf16", "f16"}) {
    for (const char* state : {"f32", "bf16", "f16"}) {
      for (const char* out : {"token", "f32"}) {
        expect_all_agree({"gated_delta:heads=1/2,dim=64,seq=100+33,gates=mid,h0=normal,dtype=" +
                          std::string(token) + ",state=" + state + ",out=" + out});
      }
    }
  }
}

TEST_P(GatedDelta, InitialAndFinalStates) {
  for (const char* h0 : {"absent", "normal", "large"}) {
    for (const char* ht : {"0", "1"}) {
      expect_all_agree({"gated_delta:heads=1/2,dim=64,seq=100+0+33,dtype=f32,gates=mid,h0=" +
                        std::string(h0) + ",ht=" + ht});
    }
  }
}

TEST_P(GatedDelta, SlotsLayoutsAndPadding) {
  for (const char* slots : {"identity", "permuted", "padding"}) {
    for (const char* layout : {"kv", "vk"}) {
      for (const char* pad : {"0", "24"}) {
        expect_all_agree(
            {"gated_delta:dim=64x128,seq=40+0+65+7+1,dtype=bf16,gates=mid,h0=normal,state=f32," +
             std::string(emulated() ? "heads=1/2" : "heads=2/4") + ",slots=" + slots +
             ",layout=" + layout + ",pool_pad=" + pad});
      }
    }
  }
  expect_all_agree(
      {"gated_delta:heads=1,dim=60x100,seq=40+0+65,dtype=f32,gates=mid,h0=normal,"
       "state=bf16,slots=padding,layout=vk,pool_pad=5"});
}

// Rows that are read stay as they are, several sequences read one, and of some nothing is kept.
TEST_P(GatedDelta, OutputSlotsOfTheirOwn) {
  const std::string heads = emulated() ? "heads=1/2" : "heads=2/4";
  std::vector<std::string> problems;
  for (const char* slots : {"identity", "permuted", "padding"}) {
    const std::string of_slots =
        ",gates=mid," + heads + ",output_slots=other,slots=" + std::string(slots);
    for (const char* more : {",dtype=bf16,state=f32,h0=normal,layout=kv",
                             ",dtype=bf16,state=bf16,h0=normal,layout=vk,pool_pad=24",
                             ",dtype=f16,decay=channel,h0=normal", ",dtype=f32"}) {
      problems.push_back("gated_delta:dim=128,seq=40+3+65+7+1+0+130" + of_slots + more);
    }
    problems.push_back("gated_delta:dim=64,seq=13x1,dtype=bf16,h0=normal" + of_slots);
  }
  expect_all_agree(problems);
}

TEST_P(GatedDelta, StatesInsideACall) {
  const std::string heads = emulated() ? "heads=1/2" : "heads=2/4";
  std::vector<std::string> problems;
  for (const char* more :
       {",dtype=bf16,h0=normal,checkpoints=1", ",dtype=bf16,checkpoints=4,layout=vk",
        ",dtype=bf16,h0=normal,slots=padding,checkpoints=3,checkpoint_dtype=bf16,layout=vk",
        ",dtype=f16,state=f16,h0=normal,ht=0,checkpoints=2,checkpoint_dtype=f32",
        ",dtype=bf16,state=bf16,h0=normal,norm=1,slots=permuted,output_slots=other,checkpoints=3,"
        "pool_pad=8",
        ",dtype=f32,h0=normal,checkpoints=2,decay=channel", ",dtype=bf16,steps=2,checkpoints=2",
        ",dtype=bf16,h0=normal,slots=padding,norm=1,layout=vk,checkpoints=3,decay=channel",
        ",dtype=f16,gates=reset,gate=logits,h0=large,checkpoints=9"}) {
    std::string problem = "gated_delta:dim=128,seq=40+200+65+7+1+0+130," + heads + more;
    if (problem.find("gates") == std::string::npos) problem += ",gates=mid";
    problems.push_back(problem);
  }
  problems.push_back("gated_delta:heads=1/3,dim=64,seq=9+1,dtype=f32,h0=normal,checkpoints=12");
  expect_all_agree(problems);
}

// Final states rounded by chance, in every layout and 16-bit type, beside whatever else a row may be.
TEST_P(GatedDelta, FinalStatesRoundedByChance) {
  bool is_supported = false;
  for (const char* state : {"bf16", "f16"}) {
    for (const char* more :
         {",dim=128,seq=9x1,layout=vk", ",dim=128,seq=4+1+0+3,slots=padding,checkpoints=2",
          ",dim=64x72,seq=1+70,norm=1,pool_pad=8", ",dim=96x40,seq=5+0+9,layout=vk,gate=logits",
          ",dim=136x36,seq=3+2,slots=permuted", ",dim=24x20,seq=2+1,layout=vk"}) {
      for (const char* dtype : {"bf16", "f32"}) {
        const Problem problem = Problem::parse(
            "gated_delta:heads=1/2,gates=mid,h0=normal,state_rounding=stochastic,state=" +
            std::string(state) + more + ",dtype=" + dtype);
        if (!implementation().supports(problem)) continue;
        is_supported = true;
        expect_all_agree({problem.to_string()});
      }
    }
  }
  if (!is_supported) GTEST_SKIP();
}

// Without an update a state is its old self times the decay, one product: the element that is stored is then known
// bit for bit, from the definition in interface/stochastic_rounding.h.
TEST_P(GatedDelta, RoundingByChanceIsItsDefinition) {
  bool is_supported = false;
  for (const char* more :
       {"dim=128,state=bf16", "dim=128,state=f16", "dim=64x72,state=bf16,layout=vk",
        "dim=128,state=f16,layout=vk,slots=permuted", "dim=136x36,state=f16,pool_pad=4"}) {
    Case inputs = generate_case(Problem::parse(
        "gated_delta:heads=1/2,seq=3x1,dtype=bf16,h0=normal,gates=-0.6..-0.1,betas=zero,"
        "state_rounding=stochastic," +
        std::string(more)));
    Problem& problem = inputs.problem;
    if (!implementation().supports(problem)) continue;
    is_supported = true;
    SCOPED_TRACE(problem.to_string());
    Case of_ones = inputs;
    of_ones.problem.state_rounding = StateRounding::nearest;
    of_ones.problem.state_dtype = DType::float32;
    of_ones.other_indices.erase("rounding_seed");
    std::fill(of_ones["initial_state"].begin(), of_ones["initial_state"].end(), 1.0f);
    const Outputs decays = execute(implementation(), of_ones, device());

    // Of each five runs of 64, one has numbers that float16 has fewer digits of, and one an element in eight that
    // lands about where those begin. The rest is ordinary, so that forms for ordinary words are used too.
    constexpr float kSmallestNormal = 0x1p-14f;
    std::vector<float>& states = inputs["initial_state"];
    for (std::size_t i = 0; i < states.size(); ++i) {
      const float decay = decays["final_state"][i];
      if (i / 64 % 5 == 0) states[i] *= 0x1p-16f;
      if (i / 64 % 5 == 1 && i % 8 == 3) {
        const auto steps = static_cast<float>(i / 320 % 4) - 2;  // of float16's last place there
        states[i] = kSmallestNormal / decay + steps * 0x1p-24f;
      }
    }
    round_in_place(problem.state_dtype, states.data(), static_cast<std::int64_t>(states.size()));
    const Outputs outputs = execute(implementation(), inputs, device());

    const std::int64_t elements =
        problem.num_value_heads * problem.key_head_dim * problem.value_head_dim;
    for (std::int64_t n = 0; n < 3; ++n) {
      const std::int64_t row = inputs.slot(n) * problem.state_row_stride();
      const auto seed = static_cast<std::uint32_t>(
          inputs.other_indices["rounding_seed"].at(static_cast<std::size_t>(n)));
      std::int64_t others = 0;
      for (std::int64_t i = 0; i < elements; ++i) {
        const auto at = static_cast<std::size_t>(row + i);
        const float value = decays["final_state"][at] * states[at];
        const auto bits = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t random =
            rounding_bits(seed, static_cast<std::uint32_t>(i / kRoundingGroup))
                .of(static_cast<int>(i % kRoundingGroup));
        const std::uint16_t stored = problem.state_dtype == DType::bfloat16
                                         ? round_to_bfloat16(bits, random)
                                         : round_to_float16(bits, random);
        float expected = 0;
        decode(problem.state_dtype, &stored, &expected, 1);
        if (outputs["final_state"][at] != expected) ++others;
      }
      EXPECT_EQ(others, 0) << "of " << elements << " elements of sequence " << n;
    }
  }
  if (!is_supported) GTEST_SKIP();
}

// Where float16 ends: states of one product each, below its largest number, beyond it, and between the two, of which
// chance makes either the largest number or infinity.
TEST_P(GatedDelta, RoundingByChanceBeyondTheLargestFloat16) {
  bool is_supported = false;
  for (const char* more : {"", ",layout=vk"}) {
    Case inputs =
        generate_case(Problem::parse("gated_delta:heads=1/2,dim=128,seq=3x1,dtype=bf16,state=f16,"
                                     "state_rounding=stochastic" +
                                     std::string(more)));
    const Problem& problem = inputs.problem;
    if (!implementation().supports(problem)) continue;
    is_supported = true;
    SCOPED_TRACE(problem.to_string());
    const auto fill = [&](const char* operand, int step) {
      int i = 0;
      for (float& x : inputs[operand]) {
        x = static_cast<float>(250 + i * step % 12) * (i % 3 == 0 ? -1.0f : 1.0f);
        ++i;
      }
      round_in_place(DType::bfloat16, inputs[operand].data(),
                     static_cast<std::int64_t>(inputs[operand].size()));
    };
    fill("k", 5);
    fill("v", 7);
    std::fill(inputs["beta"].begin(), inputs["beta"].end(), 1.0f);
    const Outputs outputs = execute(implementation(), inputs, device());

    std::int64_t others = 0, infinities = 0;
    for (std::int64_t i = 0; i < 3 * 2 * 128 * 128; ++i) {
      const std::int64_t n = i / (2 * 128 * 128), head = i / (128 * 128) % 2;
      const bool by_value = problem.state_layout == StateLayout::vk;
      const std::int64_t row = i / 128 % 128, column = i % 128;
      const float value =
          inputs["k"][static_cast<std::size_t>(n * 128 + (by_value ? column : row))] *
          inputs["v"][static_cast<std::size_t>((n * 2 + head) * 128 + (by_value ? row : column))];
      const auto seed = static_cast<std::uint32_t>(
          inputs.other_indices["rounding_seed"].at(static_cast<std::size_t>(n)));
      const std::int64_t element = i % (2 * 128 * 128);
      const std::uint32_t random =
          rounding_bits(seed, static_cast<std::uint32_t>(element / kRoundingGroup))
              .of(static_cast<int>(element % kRoundingGroup));
      const std::uint16_t stored = round_to_float16(std::bit_cast<std::uint32_t>(value), random);
      float expected = 0;
      decode(DType::float16, &stored, &expected, 1);
      const std::int64_t at = inputs.slot(n) * problem.state_row_stride() + element;
      if (outputs["final_state"][static_cast<std::size_t>(at)] != expected) ++others;
      if (std::isinf(expected)) ++infinities;
    }
    EXPECT_EQ(others, 0);
    EXPECT_GT(infinities, 0);
  }
  if (!is_supported) GTEST_SKIP();
}

// Of short sequences, which have forms of their own: head dims, layouts and element types of the state and of the
// checkpoints in turn.
TEST_P(GatedDelta, StatesInsideShortCalls) {
  std::vector<std::string> problems;
  int turn = 0;
  for (const char* layout : {"kv", "vk"}) {
    for (const char* state : {"f32", "bf16", "f16"}) {
      for (const char* checkpoint : {"f32", "bf16", "f16"}) {
        const std::vector<std::string> more = {
            ",dim=128,seq=4+1+0+3+2,slots=padding,checkpoints=3",
            ",dim=64x72,seq=1+1+1,checkpoints=2,steps=2",
            ",dim=96x40,seq=5+0+9,slots=permuted,output_slots=other,checkpoints=4,pool_pad=8",
            ",dim=192x136,seq=3+2,slots=permuted,checkpoints=2,ht=0,norm=1",
            ",dim=256x24,seq=4+1+2,checkpoints=5,decay=channel"};
        problems.push_back(
            "gated_delta:heads=1/2,dtype=bf16,gates=mid,h0=normal,layout=" + std::string(layout) +
            ",state=" + state + ",checkpoint_dtype=" + checkpoint +
            more[static_cast<std::size_t>(turn++) % more.size()]);
      }
    }
  }
  expect_all_agree(problems);
}

// In float32, bit for bit: whoever continues from a checkpoint gets what a call would have left that ends there
// and has the checkpoints before it.
TEST_P(GatedDelta, ACheckpointIsTheFinalStateOfACallThatEndsThere) {
  bool is_supported = false;
  for (const char* more :
       {"", ",layout=vk,norm=1", ",h0=normal,slots=permuted", ",h0=normal,decay=channel"}) {
    const Problem problem =
        Problem::parse("gated_delta:heads=1/2,dim=128,seq=150,dtype=bf16,gates=mid,checkpoints=5" +
                       std::string(more));
    if (!implementation().supports(problem)) continue;
    is_supported = true;
    SCOPED_TRACE(problem.to_string());
    Case inputs = generate_case(problem);
    const std::vector<std::int64_t> counts = {5, 64, 0, 131, 150};
    inputs.other_indices["checkpoint_tokens"] = counts;
    const Outputs outputs = execute(implementation(), inputs, device());
    const auto elements = static_cast<std::size_t>(problem.num_value_heads * 128 * 128);
    for (std::size_t j = 0; j < counts.size(); ++j) {
      SCOPED_TRACE("after " + std::to_string(counts[j]) + " tokens");
      const float* const checkpoint = outputs["checkpoint_states"].data() + j * elements;
      if (counts[j] == 0) {
        EXPECT_TRUE(std::all_of(checkpoint, checkpoint + elements, [](float x) { return x == 0; }));
        continue;
      }
      const Case part = first_part(inputs, after(counts[j]));
      const Outputs of_part = execute(implementation(), part, device());
      const float* const state =
          of_part["final_state"].data() + part.output_slot(0) * static_cast<std::int64_t>(elements);
      EXPECT_EQ(std::memcmp(checkpoint, state, elements * sizeof(float)), 0);
    }
  }
  if (!is_supported) GTEST_SKIP();
}

TEST_P(GatedDelta, GateAndBetaEncodings) {
  for (const char* gate : {"log_decay", "decay", "neg_log_decay", "logits"}) {
    for (const char* beta : {"beta", "logit"}) {
      expect_all_agree({"gated_delta:heads=1/2,dim=64,seq=150,dtype=f32,gates=real,gate=" +
                        std::string(gate) + ",beta=" + beta});
    }
  }
  expect_all_agree(with_each("gated_delta:heads=1/2,dim=64,seq=150,dtype=f32,gates=reset", "gate",
                             {"log_decay", "decay", "neg_log_decay"}));
}

TEST_P(GatedDelta, BoundedGatesAndBetasUpToTwo) {
  for (const char* more : {"gates=bounded", "gates=bounded,bound=0.5", "gates=mid", "gates=real",
                           "gates=none", "gates=-5..-0.5"}) {
    for (const char* beta : {"beta", "logit2,betas=wide"}) {
      expect_all_agree({"gated_delta:heads=1/2,dim=64,seq=150,dtype=f32,h0=normal,gate=bounded," +
                        std::string(more) + ",beta=" + beta});
    }
  }
  expect_all_agree(with_each("gated_delta:heads=1/2,dim=64,seq=150,dtype=f32,gates=mid,beta=logit2",
                             "betas", {"sigmoid", "zero", "one", "two", "mixture"}));
}

// Rates from exp(-20) to beyond float32, arguments of exactly zero and far from it: the sigmoid
// saturates, and infinity times zero is never formed.
TEST_P(GatedDelta, BoundedGatesFarOut) {
  Case inputs = generate_case(Problem::parse(
      "gated_delta:heads=1/6,dim=64,seq=120,dtype=f32,gate=bounded,bound=0.125,h0=normal"));
  if (!implementation().supports(inputs.problem)) GTEST_SKIP();
  inputs["A_log"] = {-20, 20, 100, 130, -100, 0};
  inputs["dt_bias"] = {0, 0.5f, -1, 0, 3, 0};
  const float far[] = {0, 1, -0.5f, 300, -300, 100, -100, 1e30f, -1e30f, 20, -20};
  std::vector<float>& logits = inputs["bounded_decay_logit"];
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = far[i / 6 % 11];
  expect_agrees(inputs);
}

TEST_P(GatedDelta, LogitsInTheTokenDtype) {
  for (const char* dim : {"64", "128"}) {
    for (const char* options :
         {"dtype=bf16,gate=logits,beta=logit", "dtype=f16,gate=bounded,beta=logit2",
          "dtype=bf16,beta=logit", "dtype=f16,gate=logits,betas=zero",
          "dtype=bf16,gate=logits,beta=logit,decay=channel"}) {
      expect_all_agree({"gated_delta:heads=1/2,seq=70+0+3,gates=real,h0=normal,logits=token,dim=" +
                        std::string(dim) + "," + options});
    }
  }
}

// softplus(x) is x for large x and exp(x) for very negative x; neither may overflow or vanish.
TEST_P(GatedDelta, LogitsFarOut) {
  Case inputs = generate_case(Problem::parse(
      "gated_delta:heads=1/2,dim=64,seq=120,dtype=f32,gates=real,gate=logits,beta=logit"));
  if (!implementation().supports(inputs.problem)) GTEST_SKIP();
  inputs["A_log"].assign(2, -8.0f);  // so that even the largest logits leave a decay to be seen
  const float far[] = {300, -300, 100, -100, 89, -89, 20, -20};
  for (std::size_t i = 0; i < inputs[gate_name(inputs.problem)].size(); ++i) {
    inputs[gate_name(inputs.problem)][i] = far[i % 8];
    if (i % 3 == 0) inputs[beta_name(inputs.problem)][i] = far[(i / 3) % 8];
  }
  expect_agrees(inputs);
}

// exp(A_log) overflows and softplus vanishes, but their product is an ordinary decay: exp(95 - 96).
TEST_P(GatedDelta, LogitsWhoseRateOverflows) {
  Case inputs = generate_case(Problem::parse(
      "gated_delta:heads=1/2,dim=64,seq=120,dtype=f32,gates=real,gate=logits,h0=normal"));
  if (!implementation().supports(inputs.problem)) GTEST_SKIP();
  inputs["A_log"] = {95, 130};
  inputs["dt_bias"] = {-96, -135};
  // Sums as large as these keep 1/64 and little more.
  for (float& logit : inputs[gate_name(inputs.problem)]) logit = std::round(logit * 64) / 64;
  expect_agrees(inputs);
}

TEST_P(GatedDelta, NormAndScale) {
  expect_all_agree({"gated_delta:heads=1/2,dim=64,seq=150,dtype=f32,gates=mid,norm=1",
                    "gated_delta:heads=1/2,dim=64,seq=150,dtype=bf16,gates=mid,norm=1",
                    "gated_delta:heads=1/2,dim=64,seq=150,dtype=f32,gates=mid,scale=1",
                    "gated_delta:heads=1/2,dim=64,seq=150,dtype=f32,gates=mid,scale=-0.25,norm=1"});
}

// Vectors as short as the epsilon's root: added to the sum of squares it is half of it, added to
// the root (or left out) it gives another result by far.
TEST_P(GatedDelta, NormOfShortVectors) {
  Case inputs = generate_case(
      Problem::parse("gated_delta:heads=1/2,dim=64,seq=150,dtype=f32,gates=mid,norm=1,h0=normal"));
  if (!implementation().supports(inputs.problem)) GTEST_SKIP();
  for (auto* vectors : {&inputs["q"], &inputs["k"]}) {
    for (float& x : *vectors) x *= 1e-3f;
  }
  expect_agrees(inputs);
}

TEST_P(GatedDelta, EveryChunkSize) {
  const std::vector<std::string> chunks = {"16",  "24",  "32",  "48", "64",
                                           "100", "128", "255", "256"};
  expect_all_agree(with_each("gated_delta:heads=1/2,dim=64,seq=600+3,dtype=f32,gates=mid,h0=normal",
                             "chunk", chunks));
  expect_all_agree(
      with_each("gated_delta:heads=1,dim=64,seq=600,dtype=bf16,gates=reset", "chunk", chunks));
}

// Rounding errors of thousands of steps must not pile up, with the longest memories above all.
TEST_P(GatedDelta, LongSequencesKeepTheirPrecision) {
  for (const char* dtype : {"f32", "bf16"}) {
    expect_all_agree(
        with_each("gated_delta:heads=1,dim=128,seq=4096,h0=normal,dtype=" + std::string(dtype),
                  "gates", {"real", "none", "near_one"}));
  }
}

// Queries, keys and values may be slices of wider rows, as of one fused projection.
TEST_P(GatedDelta, TokensAtAStride) {
  for (const char* text :
       {"gated_delta:heads=1/2,dim=64,seq=70+33,dtype=f32,gates=mid,h0=normal",
        "gated_delta:heads=1/2,dim=64,seq=70+33,dtype=bf16,gates=mid,h0=normal"}) {
    const Problem problem = Problem::parse(text);
    if (!implementation().supports(problem)) continue;
    SCOPED_TRACE(text);
    const Case inputs = generate_case(problem);
    const DType dtype = problem.token_dtype;
    const std::int64_t tokens = problem.total_tokens();
    const std::int64_t qk = problem.num_key_heads * problem.key_head_dim;
    const std::int64_t v = problem.num_value_heads * problem.value_head_dim;
    const std::int64_t row = 2 * qk + v + 64;  // [q | k | v | 64 values that must not be read]
    std::vector<float> rows(static_cast<std::size_t>(tokens * row),
                            std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::copy_n(inputs["q"].begin() + t * qk, qk, rows.begin() + t * row);
      std::copy_n(inputs["k"].begin() + t * qk, qk, rows.begin() + t * row + qk);
      std::copy_n(inputs["v"].begin() + t * v, v, rows.begin() + t * row + 2 * qk);
    }
    const auto bytes = static_cast<std::int64_t>(rows.size() * size_of(dtype));
    std::vector<char> encoded(static_cast<std::size_t>(bytes));
    encode(dtype, rows.data(), encoded.data(), static_cast<std::int64_t>(rows.size()));
    const DeviceBuffer packed = device().allocate(bytes);
    device().upload(packed.data(), encoded.data(), bytes);

    DeviceCase on_device(inputs, device());
    Arguments strided = on_device.arguments();
    const auto element = static_cast<std::int64_t>(size_of(dtype));
    strided.set_input("q", packed.as<char>(), row);
    strided.set_input("k", packed.as<char>() + qk * element, row);
    strided.set_input("v", packed.as<char>() + 2 * qk * element, row);
    const auto plan = implementation().plan(problem, strided, device());
    plan->run();
    on_device.check_guards();
    const Outputs outputs = on_device.download();
    const Outputs dense = execute(implementation(), inputs, device());
    EXPECT_TRUE(same_bits(outputs["output"], dense["output"]));
    EXPECT_TRUE(same_bits(outputs["final_state"], dense["final_state"]));
  }
}

// Log decays that break exponentials of sums: resets at the first and last token and in a row, and
// finite ones so large that adding them to anything loses it.
TEST_P(GatedDelta, ResetsAndHugeDecaysAtChunkEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  Case inputs = generate_case(Problem::parse(
      std::string("gated_delta:heads=1/1,seq=200,dtype=f32,gates=mid,h0=normal,seed=5,") +
      (emulated() ? "dim=64x16" : "dim=64")));
  const std::vector<float> usual = inputs[gate_name(inputs.problem)];
  if (!implementation().supports(inputs.problem)) GTEST_SKIP();
  for (const float value : {-infinity, -1e30f, -3e38f, -1000.0f, -104.0f, -88.0f}) {
    for (const std::vector<std::size_t>& places :
         std::vector<std::vector<std::size_t>>{{0},
                                               {199},
                                               {15, 16, 17},
                                               {31, 32},
                                               {63},
                                               {64},
                                               {0, 1, 2, 63, 64, 65, 127, 128, 199}}) {
      inputs[gate_name(inputs.problem)] = usual;
      for (const std::size_t place : places) inputs[gate_name(inputs.problem)][place] = value;
      SCOPED_TRACE("log_decay " + std::to_string(value) + " first at " +
                   std::to_string(places.front()));
      expect_agrees(inputs);
    }
  }
  inputs[gate_name(inputs.problem)].assign(usual.size(), -infinity);
  expect_agrees(inputs);
}

// After a reset nothing of the past is left: not a rounding error of it, and not a NaN.
TEST_P(GatedDelta, AResetForgetsExactly) {
  Case inputs = generate_case(
      Problem::parse("gated_delta:heads=1,dim=64,seq=150,dtype=f32,gates=mid,h0=large,seed=6"));
  if (!implementation().supports(inputs.problem)) GTEST_SKIP();
  constexpr std::int64_t kReset = 70;
  inputs[gate_name(inputs.problem)][kReset] = -std::numeric_limits<float>::infinity();
  Case other = inputs;
  for (float& x : other["initial_state"]) x *= -3.0f;
  for (std::int64_t i = 0; i < kReset * 64; ++i) other["v"][static_cast<std::size_t>(i)] += 2.0f;
  const Outputs a = execute(implementation(), inputs, device());
  const Outputs b = execute(implementation(), other, device());
  EXPECT_FALSE(
      same_bits(token_range(a["output"], 64, 0, kReset), token_range(b["output"], 64, 0, kReset)));
  EXPECT_TRUE(same_bits(token_range(a["output"], 64, kReset, 150),
                        token_range(b["output"], 64, kReset, 150)));
  EXPECT_TRUE(same_bits(a["final_state"], b["final_state"]));
}

GDN_INSTANTIATE_FOR(GatedDelta, gated_delta_operation());

}  // namespace
}  // namespace gdn
