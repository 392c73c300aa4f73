// cuda/channel_sm90 over its own shapes (one decay per key channel, 128x128 heads, 16-bit tokens),
// of which the tests of every implementation have few; and what only a kernel with exponentials of
// sums and boxes of tokens can get wrong. On a device of compute capability 9.0 or emulated.
#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/inputs/draw.h"
#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

constexpr std::int64_t kDim = 128;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class ChannelSm90 : public ImplementationTest {
 protected:
  static std::vector<std::string> with(const std::string& options,
                                       const std::vector<std::string>& each) {
    std::vector<std::string> problems;
    for (const std::string& one : each)
      for (const char* dtype : {"bf16", "f16"})
        problems.push_back("gated_delta:dim=128,decay=channel,dtype=" + std::string(dtype) + "," +
                           options + (one.empty() ? "" : "," + one));
    return problems;
  }
  static Case case_of(const std::string& options) {
    return generate_case(Problem::parse("gated_delta:dim=128,decay=channel," + options));
  }
};

TEST_P(ChannelSm90, EveryLengthModulo16) {
  std::string lengths = "0";
  for (int length = 1; length <= 33; ++length) lengths += "+" + std::to_string(length);
  expect_all_agree(with("heads=1/2,gates=mid,h0=normal,seq=" + lengths, {""}));
}

// More chunks than slots, of lengths that leave the roles at any slot, and several items a block.
TEST_P(ChannelSm90, RingsGoAround) {
  expect_all_agree(with("heads=1/1,gates=mid,h0=normal", {"seq=450", "seq=200+97+16+205"}));
  const int blocks = device().info().multiprocessors;
  const std::string many = std::to_string(std::min(2 * blocks + 1, 200));
  expect_all_agree(
      with("heads=1/2,gates=real,h0=normal,slots=permuted", {"seq=" + many + "x3+2x100+3x0+1x17"}));
}

// More than a block orders by their length.
TEST_P(ChannelSm90, MoreSequencesThanAreOrdered) {
  expect_all_agree({"gated_delta:dim=128,decay=channel,dtype=bf16,heads=1/1,seq=513x1+1x20"});
}

TEST_P(ChannelSm90, GatesBetasAndKeys) {
  expect_all_agree(
      with("heads=1/2,seq=130+0+64+1,h0=normal",
           {"gates=real", "gates=none", "gates=weak", "gates=near_one", "gates=strong", "gates=mid",
            "gates=reset", "gates=tiny", "gates=edges", "gates=masked", "gates=mixture"}));
  for (const char* betas : {"zero", "one", "two", "wide"})
    expect_all_agree(
        with("heads=1/2,gates=near_one,seq=100,betas=" + std::string(betas),
             {"keys=unit", "keys=zero", "keys=correlated", "keys=unnormalised,norm=1"}));
}

// Sums of a chunk's log decays on either side of those that products with e^-G can bear, in all
// channels and in some.
TEST_P(ChannelSm90, SumsAroundTheLeastThatProductsBear) {
  for (const char* dtype : {"bf16", "f16"}) {
    Case inputs =
        case_of("heads=1/2,seq=64+21,gates=near_one,h0=normal,dtype=" + std::string(dtype));
    const std::vector<float> usual = inputs["log_decay"];
    for (const float sum : {-79.f, -79.7f, -80.f, -88.f, -120.f, -700.f}) {
      for (const std::int64_t apart : {1, 7, 64}) {
        SCOPED_TRACE(std::string(dtype) + ", sum " + std::to_string(sum) + ", every " +
                     std::to_string(apart) + "th channel");
        inputs["log_decay"] = usual;
        for (std::size_t i = 0; i < usual.size(); i += static_cast<std::size_t>(apart))
          inputs["log_decay"][i] = sum / 16;
        expect_agrees(inputs);
      }
    }
  }
}

// One token's decay, of one channel or of all, at the edges of chunks and within.
TEST_P(ChannelSm90, ResetsAndHugeDecaysAtEdges) {
  Case inputs = case_of("heads=1/1,seq=70,gates=near_one,h0=large,dtype=bf16");
  const std::vector<float> usual = inputs["log_decay"];
  for (const float value : {-kInfinity, -3e38f, -1000.f, -104.f, -88.f, -40.f}) {
    for (const std::int64_t channels : {std::int64_t{1}, kDim}) {
      SCOPED_TRACE(std::to_string(value) + " in " + std::to_string(channels) + " channels");
      inputs["log_decay"] = usual;
      for (const std::int64_t token : {0, 5, 15, 16, 17, 47, 48, 69})
        std::fill_n(inputs["log_decay"].begin() + token * kDim + token,
                    channels - (channels > 1 ? token : 0), value);
      expect_agrees(inputs);
    }
  }
}

// After a reset of every channel nothing of the past is left: not a rounding error of it.
TEST_P(ChannelSm90, AResetForgetsExactly) {
  constexpr std::int64_t kTokens = 60, kReset = 37;
  Case inputs = case_of("heads=1/1,seq=60,gates=mid,h0=large,dtype=bf16,seed=6");
  std::fill_n(inputs["log_decay"].begin() + kReset * kDim, kDim, -kInfinity);
  Case other = inputs;
  for (float& x : other["initial_state"]) x *= -4.0f;
  for (std::int64_t i = 0; i < 32 * kDim; ++i) other["v"][static_cast<std::size_t>(i)] *= 2.0f;
  const Outputs a = execute(implementation(), inputs, device());
  const Outputs b = execute(implementation(), other, device());
  EXPECT_FALSE(same_bits(token_range(a["output"], kDim, 0, kReset),
                         token_range(b["output"], kDim, 0, kReset)));
  EXPECT_TRUE(same_bits(token_range(a["output"], kDim, kReset, kTokens),
                        token_range(b["output"], kDim, kReset, kTokens)));
  EXPECT_TRUE(same_bits(a["final_state"], b["final_state"]));
}

TEST_P(ChannelSm90, GroupedValueHeads) {
  expect_all_agree(with("seq=70+0+33,gates=mid,h0=normal",
                        {"heads=1/1", "heads=2/4", "heads=2/6", "heads=1/5"}));
}

TEST_P(ChannelSm90, StatesSlotsAndLayouts) {
  for (const char* state : {"f32", "bf16", "f16"})
    for (const char* layout : {"kv", "vk"})
      expect_all_agree(with("heads=1/2,seq=40+70+0+17,h0=normal,gates=mid,pool_pad=24,state=" +
                                std::string(state) + ",layout=" + layout,
                            {"slots=permuted", "slots=padding"}));
  expect_all_agree(with("heads=1/2,seq=70,gates=mid",
                        {"h0=large", "h0=absent,ht=0", "h0=normal,ht=0", "scale=-0.5"}));
}

TEST_P(ChannelSm90, GateAndBetaEncodings) {
  for (const char* beta : {"beta", "logit"})
    expect_all_agree(with("heads=2/4,seq=50+27,beta=" + std::string(beta),
                          {"gates=reset,gate=log_decay", "gates=reset,gate=decay",
                           "gates=reset,gate=neg_log_decay", "gates=real,gate=logits"}));
  expect_all_agree(with("heads=1/2,seq=50+27,gates=bounded,beta=logit2",
                        {"gate=bounded", "gate=bounded,bound=0.25,betas=wide"}));
}

// Boxes of 16 tokens reach into the next sequence, whose values must not reach a result.
TEST_P(ChannelSm90, NanInTheNextSequenceStaysThere) {
  const Case inputs = case_of("heads=1/2,seq=37+30,dtype=bf16,gates=mid,h0=normal");
  constexpr std::int64_t kFirst = 37;
  const auto run_with_nan_from = [&](std::int64_t token) {
    DeviceCase on_device(inputs, device());
    on_device.reset_async();
    const auto fill = [&](const char* name, std::int64_t bytes_per_token) {
      auto* array = static_cast<char*>(const_cast<void*>(on_device.arguments().input(name)));
      device().fill_async(array + token * bytes_per_token, 0xff,
                          (inputs.problem.total_tokens() - token) * bytes_per_token);
    };
    fill("q", kDim * 2), fill("k", kDim * 2), fill("v", 2 * kDim * 2);
    fill("log_decay", 2 * kDim * 4), fill("beta", 2 * 4);
    implementation().plan(inputs.problem, on_device.arguments(), device())->run();
    return on_device.download();
  };
  const Outputs expected = run_with_nan_from(inputs.problem.total_tokens()),
                got = run_with_nan_from(kFirst);
  EXPECT_TRUE(same_bits(token_range(got["output"], 2 * kDim, 0, kFirst),
                        token_range(expected["output"], 2 * kDim, 0, kFirst)));
  const std::int64_t row = inputs.problem.state_row_stride();
  EXPECT_TRUE(same_bits(token_range(got["final_state"], row, 0, 1),
                        token_range(expected["final_state"], row, 0, 1)));
  EXPECT_TRUE(std::isnan(got["output"][2 * kDim * kFirst]));
}

// How gates reach the sums shows in the plan alone: the same values give the same bits, be they copied
// as they are used, copied and decoded, from 32 or 16 bits, or read one by one.
TEST_P(ChannelSm90, GatesInAnyFormGiveTheSameBits) {
  Case plain = case_of("heads=2/4,seq=50+0+27,gates=reset,h0=normal,dtype=bf16");
  round_in_place(DType::bfloat16, plain["log_decay"].data(),
                 static_cast<std::int64_t>(plain["log_decay"].size()));
  Case negative =
      case_of("heads=2/4,seq=50+0+27,gates=reset,h0=normal,dtype=bf16,gate=neg_log_decay");
  for (const char* name : {"q", "k", "v", "beta", "initial_state"}) negative[name] = plain[name];
  negative["neg_log_decay"] = plain["log_decay"];
  for (float& x : negative["neg_log_decay"]) x = -x;

  constexpr std::int64_t kPerToken = 4 * kDim;
  // Tokens of `name` lie `stride` elements apart, in 16 bits or 32.
  const auto run_held = [&](const Case& inputs, const char* name, DType type, std::int64_t stride,
                            const std::string& choice) {
    DeviceCase on_device(inputs, device());
    on_device.reset_async();
    const std::int64_t tokens = inputs.problem.total_tokens();
    const auto bytes = static_cast<std::size_t>(size_of(type));
    std::vector<char> held(static_cast<std::size_t>(tokens * stride) * bytes, '\xff');
    for (std::int64_t t = 0; t < tokens; ++t)
      encode(type, inputs[name].data() + t * kPerToken,
             held.data() + static_cast<std::size_t>(t * stride) * bytes, kPerToken);
    DeviceBuffer buffer = device().allocate(static_cast<std::int64_t>(held.size()));
    device().upload(buffer.data(), held.data(), buffer.bytes());
    Arguments arguments = on_device.arguments();
    arguments.set_input(name, buffer.data(), HeldForm{storage_type(type), stride, 1});
    const auto plan = implementation().plan(inputs.problem, arguments, device());
    EXPECT_NE((plan->info().choice + " ").find(" gates=" + choice + " "), std::string::npos)
        << plan->info().choice;
    plan->run();
    return on_device.download();
  };
  const Outputs expected = run_held(plain, "log_decay", DType::float32, kPerToken, "copied");
  const auto expect_same = [&](const Outputs& got) {
    EXPECT_TRUE(same_bits(got["output"], expected["output"]));
    EXPECT_TRUE(same_bits(got["final_state"], expected["final_state"]));
  };
  expect_same(run_held(plain, "log_decay", DType::float32, kPerToken + 4, "copied"));
  expect_same(run_held(plain, "log_decay", DType::float32, kPerToken + 1, "read"));
  expect_same(run_held(plain, "log_decay", DType::bfloat16, kPerToken, "copied_encoded"));
  expect_same(run_held(plain, "log_decay", DType::bfloat16, kPerToken + 4, "read"));
  expect_same(run_held(negative, "neg_log_decay", DType::float32, kPerToken, "copied_encoded"));
  expect_same(
      run_held(negative, "neg_log_decay", DType::bfloat16, kPerToken + 8, "copied_encoded"));
}

// Logits whose exponential or softplus leaves float32, at rates up to e^100; what is decoded by
// single instructions keeps to the limits, in either width.
TEST_P(ChannelSm90, LogitsInEitherWidthAndFarOut) {
  for (const char* logits : {"f32", "token"}) {
    expect_all_agree(
        with("heads=5/5,seq=50+0+27,h0=normal,gate=logits,logits=" + std::string(logits),
             {"gates=far", "gates=real", "gates=real,norm=1"}));
    expect_all_agree(with(
        "heads=1/2,seq=50+0+27,h0=normal,gates=bounded,gate=bounded,logits=" + std::string(logits),
        {"", "bound=0.25,norm=1"}));
  }
}

// Logits near -12 decay by e^-12 a token, which many tokens add up.
TEST_P(ChannelSm90, SmallSoftplusesAddUp) {
  Case inputs = case_of("heads=1/1,seq=1500,gate=logits,h0=normal,dtype=f16");
  for (const float logit : {-4.f, -8.f, -12.f}) {
    for (float& x : inputs[gate_name(inputs.problem)]) x = logit;
    expect_agrees(inputs);
  }
}

// Short sequences are cuda/decode's up to where the two were measured to cross.
TEST_P(ChannelSm90, ShortSequencesAreLeftToDecode) {
  const Implementation& decode = find_implementation(gated_delta_operation(), "cuda/decode");
  const auto is_left = [&](const std::string& options) {
    const Problem problem = Problem::parse(
        "gated_delta:heads=1/2,dim=128,decay=channel,dtype=bf16,h0=normal," + options);
    return implementation().rank(problem) < decode.rank(problem);
  };
  for (const auto& [options, most] :
       std::vector<std::pair<std::string, int>>{{"layout=kv", 2},
                                                {"layout=vk", 5},
                                                {"layout=kv,state=bf16", 4},
                                                {"layout=vk,state=bf16", 8}}) {
    SCOPED_TRACE(options);
    EXPECT_TRUE(is_left(options + ",seq=16x" + std::to_string(most)));
    EXPECT_FALSE(is_left(options + ",seq=16x1+1x" + std::to_string(most + 1)));
  }
}

TEST_P(ChannelSm90, ErrorsDoNotGrowOverALongSequence) {
  expect_all_agree(with("heads=1/1,seq=2000,h0=normal", {"gates=near_one", "gates=none"}));
}

std::vector<const Implementation*> channel_sm90() {
  std::vector<const Implementation*> found;
  for (const Implementation* one : implementations_of(gated_delta_operation()))
    if (one->description().name == "cuda/channel_sm90") found.push_back(one);
  return found;
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ChannelSm90);
INSTANTIATE_TEST_SUITE_P(All, ChannelSm90, testing::ValuesIn(channel_sm90()), test_name);

}  // namespace
}  // namespace gdn
