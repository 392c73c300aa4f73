// Variants of the recurrence (update, steps, decay) over all implementations: each either agrees
// with the float64 recurrence or is refused with a reason in words, in every combination.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "composed/chain_implementation.h"
#include "harness/operations/generate_case.h"
#include "harness/operations/steps_to_tokens.h"
#include "harness/run/execute.h"
#include "interface/error.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_layer.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/operation.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

const std::vector<std::string> kVariants = {"update=additive",
                                            "decay=channel",
                                            "steps=2",
                                            "steps=3",
                                            "update=additive,decay=channel",
                                            "update=additive,steps=2",
                                            "steps=2,decay=channel",
                                            "update=additive,steps=3,decay=channel"};

std::vector<std::string> with_each_variant(const std::string& problem) {
  std::vector<std::string> problems;
  for (const std::string& variant : kVariants) problems.push_back(problem + "," + variant);
  return problems;
}

/// Says yes to everything: what an implementation is that never thought of variants.
class Unaware final : public Implementation {
 public:
  Unaware() { description_.name = "cpu/unaware"; }
  Unaware(Operation operation, HonouredFields honours) : Unaware() {
    description_.operation = operation;
    description_.honours = std::move(honours);
  }
  const Description& description() const override { return description_; }
  Support supports(const Problem&) const override { return Support::yes(); }
  std::int64_t workspace_bytes(const Problem&) const override { return 0; }
  std::unique_ptr<Plan> plan(const Problem&, const Arguments&, Device&) const override {
    throw Error(ErrorKind::device_failure, "it was planned");
  }

 private:
  Description description_;
};

void expect_refused(const Implementation& implementation, const Problem& problem,
                    const std::string& named) {
  SCOPED_TRACE(implementation.description().name + " " + problem.to_string());
  const Support support = implementation.supports(problem);
  EXPECT_FALSE(support);
  EXPECT_NE(support.reason.find(named), std::string::npos) << support.reason;
  const auto device = open_device("cpu");
  try {
    implementation.plan(problem, Arguments{}, *device);
    ADD_FAILURE() << "planned without complaint";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
    EXPECT_NE(std::string(error.what()).find(named), std::string::npos) << error.what();
  }
}

bool names(const Description& description, const std::string& field) {
  const HonouredFields& honours = description.honours;
  return std::find(honours.begin(), honours.end(), field) != honours.end();
}

// Every field that changes what is computed, off its default. A field that is added here must be
// named by those who honour it: nobody else gets to see it.
TEST(FieldGuard, WhatAnImplementationDoesNotNameIsRefused) {
  const std::map<std::string, std::string> off_default = {{"out", "f32"},
                                                          {"state", "bf16"},
                                                          {"layout", "vk"},
                                                          {"h0", "normal"},
                                                          {"ht", "0"},
                                                          {"slots", "permuted"},
                                                          {"output_slots", "other"},
                                                          {"checkpoints", "2"},
                                                          {"checkpoint_dtype", "bf16"},
                                                          {"ring", "40"},
                                                          {"state_rounding", "stochastic"},
                                                          {"pool_pad", "8"},
                                                          {"pool_rows", "40"},
                                                          {"norm", "1"},
                                                          {"scale", "0.5"},
                                                          {"update", "additive"},
                                                          {"steps", "2"},
                                                          {"decay", "channel"},
                                                          {"gate", "logits"},
                                                          {"bound", "2"},
                                                          {"beta", "logit"},
                                                          {"logits", "token"},
                                                          {"channels", "5"},
                                                          {"width", "3"},
                                                          {"bias", "1"},
                                                          {"act", "none"},
                                                          {"conv_layout", "time"},
                                                          {"conv_in_place", "0"},
                                                          {"window", "read"},
                                                          {"window_layout", "channels"},
                                                          {"window_length", "9"},
                                                          {"window_order", "ring"},
                                                          {"fresh", "1"},
                                                          {"residual", "1"},
                                                          {"weights", "f32"},
                                                          {"gated_norm", "1"},
                                                          {"norm_gate", "sigmoid"},
                                                          {"norm_eps", "1e-5"}};
  const Unaware unaware;
  const auto guarded = guarded_by_description({&unaware});
  for (const ProblemField& field : problem_fields()) {
    if (field.of_inputs || is_common_field(field.key)) continue;
    const auto value = off_default.find(field.key);
    ASSERT_NE(value, off_default.end()) << field.key << ": add a value off its default";
    Problem problem = Problem::parse("gated_delta:heads=1/2,dim=64,seq=5");
    EXPECT_TRUE(guarded[0]->supports(problem));
    field.set(problem, value->second);
    if (field.key == "out" || field.key == "weights") problem.token_dtype = DType::bfloat16;
    const Support support = guarded[0]->supports(problem);
    EXPECT_FALSE(support) << field.key;
    EXPECT_NE(support.reason.find("does not honour " + field.key + "="), std::string::npos)
        << support.reason;
  }
}

TEST(FieldGuard, ValuesMayBeNamedOneByOne) {
  const Problem plain = Problem::parse("causal_conv1d:heads=1/2,dim=64,seq=5");
  const Problem wide = Problem::parse("causal_conv1d:heads=1/2,dim=64,seq=5,width=7");
  EXPECT_EQ(first_not_honoured(plain, {}), "");
  EXPECT_EQ(first_not_honoured(wide, {}), "width=7");
  EXPECT_EQ(first_not_honoured(wide, {"width"}), "");
  EXPECT_EQ(first_not_honoured(wide, {"width=2|3|7"}), "");
  EXPECT_EQ(first_not_honoured(wide, {"width=2|3|77"}), "width=7");
  EXPECT_EQ(first_not_honoured(wide, {"widths"}), "width=7");
}

// The reference is asked for what it knows as well.
TEST(FieldGuard, TheReferenceRefusesWhatItDoesNotName) {
  for (const Operation operation : operations()) {
    const auto& reference = reference::reference_of(operation);
    for (const ProblemField& field : problem_fields()) {
      if (field.of_inputs || is_common_field(field.key)) continue;
      const bool honoured = std::find(reference.honours.begin(), reference.honours.end(),
                                      field.key) != reference.honours.end();
      EXPECT_EQ(honoured, operation->has_field(field.key))
          << to_string(operation) << " " << field.key;
    }
  }
}

// What one step of a chain honours, another may not have heard of: the whole does it only where all do
// whose operation has the field.
TEST(FieldGuard, AChainDoesWhatEachOfItsStepsHonours) {
  const Unaware convolution(causal_conv1d_operation(), {"slots", "width"});
  const Unaware recurrence(gated_delta_operation(), {"norm", "state"});
  const ChainImplementation layer(
      gated_delta_layer_chain(),
      {.steps = {&convolution, &recurrence, nullptr}, .main_step = 1, .examples = {}});
  const auto guarded = guarded_by_description({&layer});
  const std::string problem = "gated_delta_layer:heads=1/2,dim=64,seq=5";
  EXPECT_TRUE(guarded[0]->supports(Problem::parse(problem)));
  EXPECT_TRUE(guarded[0]->supports(Problem::parse(problem + ",width=3")));
  expect_refused(*guarded[0], Problem::parse(problem + ",slots=permuted"), "slots=permuted");
  expect_refused(*guarded[0], Problem::parse(problem + ",state=bf16"), "state=bf16");
}

TEST(VariantGuard, AnImplementationThatSaysNothingOfVariantsRefusesThem) {
  const Unaware unaware;
  const auto guarded = guarded_by_description({&unaware});
  ASSERT_EQ(guarded.size(), 1u);
  EXPECT_TRUE(guarded[0]->supports(Problem::parse("gated_delta:dim=64")));
  expect_refused(*guarded[0], Problem::parse("gated_delta:update=additive"), "update=additive");
  expect_refused(*guarded[0], Problem::parse("gated_delta:steps=2"), "steps=2");
  expect_refused(*guarded[0], Problem::parse("gated_delta:decay=channel"), "decay=channel");
}

// No device is needed to be refused, so this holds of CUDA kernels on a machine without one.
TEST(VariantGuard, StandsBeforeEveryRegisteredImplementation) {
  for (const Implementation* implementation : all_implementations()) {
    const Description& description = implementation->description();
    if (!description.operation->has_field("update")) continue;  // no recurrence
    const std::string operation = to_string(description.operation);
    const auto problem = [&](const char* variant) {
      return Problem::parse(operation + ":heads=1/2,dim=64,seq=70,dtype=f32," + variant);
    };
    if (!names(description, "update")) {
      expect_refused(*implementation, problem("update=additive"), "update=additive");
    }
    if (!names(description, "decay")) {
      expect_refused(*implementation, problem("decay=channel"), "decay=channel");
    }
    if (!names(description, "steps") && description.operation == gated_delta_operation()) {
      expect_refused(*implementation, problem("steps=2"), "steps=2");
    }
  }
}

// So that the tests below run them rather than skip.
TEST(VariantGuard, TheseFormsNameTheirVariants) {
  const std::set<std::string> forms = {"cpu/naive", "cpu/recurrent", "cpu/chunkwise", "cuda/naive",
                                       "cuda/recurrent"};
  for (const Implementation* implementation : implementations_of(gated_delta_operation())) {
    const std::string& name = implementation->description().name;
    if (forms.count(name) == 0 && name != "cuda/chunkwise") continue;
    for (const std::string& text : with_each_variant("gated_delta:heads=1/2,dim=64,seq=70")) {
      const Problem problem = Problem::parse(text);
      if (name == "cuda/chunkwise" && problem.decay == DecayPer::channel) {
        expect_refused(*implementation, problem, "decay=channel");
      } else {
        EXPECT_TRUE(implementation->supports(problem)) << name << " " << text;
      }
    }
  }
}

using RecurrenceVariants = ImplementationTest;

TEST_P(RecurrenceVariants, AgreeWithTheReference) {
  expect_all_agree(with_each_variant(
      "gated_delta:heads=2/4,dim=64,seq=0+130+1+64+0+33,dtype=f32,gates=mid,h0=normal"));
  expect_all_agree(with_each_variant(
      "gated_delta:heads=1/2,dim=64x96,seq=70+5+3,dtype=bf16,gates=real,h0=normal,layout=vk,"
      "slots=padding"));
  expect_all_agree(
      with_each_variant("gated_delta:heads=1/3,dim=128x64,seq=70,dtype=f16,h0=normal,state=bf16"));
  expect_all_agree(with_each_variant("gated_delta:heads=1/2,dim=64,seq=17x1,dtype=bf16,h0=normal"));
}

TEST_P(RecurrenceVariants, AgreeWhateverTheHeadDims) {
  std::vector<std::string> problems = with_each_variant(
      "gated_delta:heads=1/2,dim=60x100,seq=70+5,dtype=bf16,gates=real,h0=normal,layout=vk,"
      "slots=padding");
  for (const char* dim : {"96x200", "256x64"}) {
    for (const std::string& text :
         with_each_variant("gated_delta:heads=1/2,seq=35,gates=mid,dim=" + std::string(dim))) {
      problems.push_back(text);
    }
  }
  expect_all_agree(problems);
}

TEST_P(RecurrenceVariants, AgreeInEveryGateRegime) {
  for (const char* gates : {"real", "none", "near_one", "strong", "reset", "tiny"}) {
    expect_all_agree(with_each_variant(
        "gated_delta:heads=1/2,dim=64x32,seq=150,dtype=f32,h0=normal,gates=" + std::string(gates)));
  }
  expect_all_agree(
      with_each_variant("gated_delta:heads=1/2,dim=64x32,seq=150,dtype=f32,h0=large,gates=reset"));
}

TEST_P(RecurrenceVariants, AgreeForKeysThatRepeatAndBetasUpToTwo) {
  for (const char* keys : {"correlated", "equal", "alternating", "zero"}) {
    for (const char* betas : {"one", "wide", "two"}) {
      expect_all_agree(with_each_variant("gated_delta:heads=1/1,dim=64x32,seq=130,gates=mid,keys=" +
                                         std::string(keys) + ",betas=" + betas));
    }
  }
}

TEST_P(RecurrenceVariants, AgreeInEveryEncodingAndWithNormAndScale) {
  for (const char* gate : {"decay", "neg_log_decay", "logits"}) {
    expect_all_agree(with_each_variant(
        "gated_delta:heads=1/"
        "2,dim=64x32,seq=70,norm=1,keys=unnormalised,scale=-0.5,beta=logit,gate=" +
        std::string(gate)));
  }
}

TEST_P(RecurrenceVariants, AgreeWithBoundedGatesAndBetasUpToTwo) {
  for (const char* gates : {"bounded", "bounded,bound=0.5", "none", "mid"}) {
    expect_all_agree(with_each_variant(
        "gated_delta:heads=1/2,dim=64x32,seq=70,gate=bounded,beta=logit2,betas=wide,gates=" +
        std::string(gates)));
  }
}

TEST_P(RecurrenceVariants, AgreeForEveryChunkSize) {
  for (const char* chunk : {"16", "24", "33", "64", "256"}) {
    expect_all_agree(
        with_each_variant("gated_delta:heads=1/1,dim=64x32,seq=300+3,gates=mid,h0=normal,chunk=" +
                          std::string(chunk)));
  }
}

// Decays of single channels that break exponentials of sums, at the edges of chunks and of the
// blocks within them.
TEST_P(RecurrenceVariants, ChannelResetsAndHugeDecaysAtEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const char* variant : {"decay=channel", "decay=channel,update=additive"}) {
    Case inputs = generate_case(
        Problem::parse("gated_delta:heads=1/1,dim=64x16,seq=100,gates=near_one,h0=normal,seed=5," +
                       std::string(variant)));
    if (!implementation().supports(inputs.problem)) GTEST_SKIP();
    const std::vector<float> usual = inputs[gate_name(inputs.problem)];
    for (const float value : {-infinity, -3e38f, -1000.0f, -104.0f, -88.0f, -86.0f, -40.0f}) {
      inputs[gate_name(inputs.problem)] = usual;
      for (const std::size_t token : {0, 15, 16, 17, 31, 32, 47, 63, 64, 99}) {
        for (std::size_t channel = token % 3; channel < 64; channel += 3) {
          inputs[gate_name(inputs.problem)][token * 64 + channel] = value;
        }
      }
      SCOPED_TRACE("log_decay " + std::to_string(value));
      expect_agrees(inputs);
    }
    inputs[gate_name(inputs.problem)].assign(usual.size(), -infinity);
    expect_agrees(inputs);
  }
}

// Decays of 1e-12 in one channel at every token beside one that keeps everything: their quotients
// over a chunk would be 1e300.
TEST_P(RecurrenceVariants, ChannelsOfVeryDifferentMemory) {
  Case inputs = generate_case(
      Problem::parse("gated_delta:heads=1/1,dim=64x32,seq=200,gates=none,h0=normal,decay=channel"));
  if (!implementation().supports(inputs.problem)) GTEST_SKIP();
  for (std::size_t i = 0; i < inputs[gate_name(inputs.problem)].size(); ++i) {
    inputs[gate_name(inputs.problem)][i] = -static_cast<float>(i % 64) / 2;
  }
  expect_agrees(inputs);
}

// A step is a token without decay whose output nobody reads, so the bits are the same for a form
// that goes from token to token; one that goes in chunks may round its products otherwise.
TEST_P(RecurrenceVariants, StepsAreTokensWithoutDecayOrReading) {
  for (const char* variant : {"steps=2", "steps=4,decay=channel", "steps=3,update=additive"}) {
    const Case product = generate_case(Problem::parse(
        "gated_delta:heads=1/2,dim=64x48,seq=90+0+33,gates=mid,h0=normal," + std::string(variant)));
    const Case tokens = steps_as_tokens(product);
    if (!implementation().supports(tokens.problem)) continue;
    SCOPED_TRACE(product.problem.to_string());
    const Outputs read =
        outputs_of_last_steps(product.problem, execute(implementation(), tokens, device()));
    expect_outputs_agree(product, read);
    if (!implementation().supports(product.problem)) continue;
    const Outputs native = execute(implementation(), product, device());
    const std::string form = implementation().description().form;
    if (form == "naive" || form == "recurrent") {
      EXPECT_TRUE(same_bits(native["output"], read["output"]));
      EXPECT_TRUE(same_bits(native["final_state"], read["final_state"]));
    }
  }
}

// Chunks begin and end anywhere in a token where a form counts them in steps; a padding sequence's
// outputs, and those of the sequence after it, begin at whole tokens all the same.
TEST_P(RecurrenceVariants, ChunksMayEndWithinAToken) {
  for (const char* steps : {"3", "5", "7", "16"}) {
    for (const char* update : {"delta", "additive"}) {
      expect_all_agree(
          {"gated_delta:heads=1/2,dim=64x48,seq=1+41+0+23+12,gates=mid,h0=normal,norm=1,"
           "slots=padding,chunk=16,steps=" +
           std::string(steps) + ",update=" + update});
    }
  }
}

// Keys and values at a token stride of their own: taken, or refused with the array's name.
TEST_P(RecurrenceVariants, StepsOfTokensAtAStride) {
  const Problem problem = Problem::parse("gated_delta:heads=1/2,dim=64,seq=40+7,gates=mid,steps=2");
  if (!implementation().supports(problem)) GTEST_SKIP();
  const Case inputs = generate_case(problem);
  const auto at_stride = [&](const std::vector<float>& dense, std::int64_t per_token,
                             std::int64_t stride) {
    std::vector<float> rows(static_cast<std::size_t>(problem.total_tokens() * stride),
                            std::numeric_limits<float>::quiet_NaN());
    for (std::int64_t t = 0; t < problem.total_tokens(); ++t) {
      std::copy_n(dense.begin() + t * per_token, per_token, rows.begin() + t * stride);
    }
    const auto bytes = static_cast<std::int64_t>(rows.size() * sizeof(float));
    DeviceBuffer buffer = device().allocate(bytes);
    device().upload(buffer.data(), rows.data(), bytes);
    return buffer;
  };
  DeviceCase on_device(inputs, device());
  Arguments strided = on_device.arguments();
  const std::int64_t key_stride = problem.keys_per_token() + 32;
  const std::int64_t value_stride = problem.values_per_token() + 16;
  const DeviceBuffer keys = at_stride(inputs["k"], problem.keys_per_token(), key_stride);
  const DeviceBuffer values = at_stride(inputs["v"], problem.values_per_token(), value_stride);
  strided.set_input("k", keys.data(), key_stride);
  strided.set_input("v", values.data(), value_stride);
  try {
    implementation().plan(problem, strided, device())->run();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
    EXPECT_NE(std::string(error.what()).find("k: tokens"), std::string::npos) << error.what();
    return;
  }
  expect_outputs_agree(inputs, on_device.download());
}

TEST_P(RecurrenceVariants, KeepTheirPrecisionOverLongSequences) {
  std::vector<std::string> problems;
  for (const char* variant : {"decay=channel", "update=additive", "steps=2"}) {
    for (const char* gates : {"near_one,h0=normal", "real"}) {
      problems.push_back("gated_delta:heads=1/1,dim=64x32,seq=2000,gates=" + std::string(gates) +
                         "," + variant);
    }
  }
  expect_all_agree(problems);
}

GDN_INSTANTIATE_FOR(RecurrenceVariants, gated_delta_operation());

using LayerVariants = ImplementationTest;

TEST_P(LayerVariants, AgreeWithTheReference) {
  for (const char* dtype : {"f32", "bf16"}) {
    for (const char* variant :
         {"update=additive", "decay=channel", "update=additive,decay=channel"}) {
      expect_all_agree(
          {"gated_delta_layer:heads=1/2,dim=64,seq=70+0+3,gate=logits,beta=logit,"
           "h0=normal,dtype=" +
           std::string(dtype) + "," + variant});
    }
  }
}

GDN_INSTANTIATE_FOR(LayerVariants, gated_delta_layer_operation());

}  // namespace
}  // namespace gdn
