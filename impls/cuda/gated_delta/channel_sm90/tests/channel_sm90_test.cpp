// cuda/channel_sm90 over its own shapes (one decay per key channel, 128x128 heads, 16-bit tokens),
// of which the tests of every implementation have few; and what only a kernel with exponentials of
// sums and boxes of tokens can get wrong. Whole and in pieces of one and three chunks, which cut
// even short sequences. On a device of compute capability 9.0 or emulated.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "cuda/emulated/emulated_device.h"
#include "harness/inputs/draw.h"
#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/errors.h"
#include "reference/reference.h"
#include "tests/implementation_fixture.h"

// What channel_sm90.h declares, of each build of it that there is.
#ifdef GDN_WITH_CUDA
namespace gdn::cuda::channel_sm90 {
std::unique_ptr<Implementation> in_pieces(int chunks);
}
#endif
#ifdef GDN_CUDA_EMULATED
namespace gdn::cuda_emulated::channel_sm90 {
std::unique_ptr<Implementation> in_pieces(int chunks);
}
#endif

namespace gdn {
namespace {

constexpr std::int64_t kDim = 128;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

const Implementation& in_pieces(int chunks) {
#if defined(GDN_WITH_CUDA) && defined(GDN_CUDA_EMULATED)
  static std::vector<std::unique_ptr<Implementation>> all;
  all.push_back(cuda::channel_sm90::in_pieces(chunks));
  const Implementation& gpu = *all.back();
  all.push_back(cuda_emulated::channel_sm90::in_pieces(chunks));
  const Implementation& emulated = *all.back();
  all.push_back(std::make_unique<cuda_emulated::Twin>(gpu, emulated));
#else
  static std::vector<std::unique_ptr<Implementation>> all;
#ifdef GDN_WITH_CUDA
  all.push_back(cuda::channel_sm90::in_pieces(chunks));
#else
  all.push_back(cuda_emulated::channel_sm90::in_pieces(chunks));
#endif
#endif
  return *all.back();
}

class ChannelSm90 : public ImplementationTest {
 protected:
  using ImplementationTest::expect_agrees;
  /// Emulated, cuda/channel_sm90 is run only where it cuts sequences: else it launches what
  /// cuda/channel_sm90_invariant does, and is its test. On a card all are run.
  void expect_agrees(const Case& inputs) override {
    if (emulated() && is_planned() && choice_of(inputs).find("piece_chunks=0 ") == 0) {
      ++num_anothers_;
      return;
    }
    ++num_run_;
    ImplementationTest::expect_agrees(inputs);
  }
  void TearDown() override {
    if (num_anothers_ > 0 && num_run_ == 0) GTEST_SKIP() << "every plan is another's, tested there";
  }
  bool is_planned() const { return implementation().description().name == "cuda/channel_sm90"; }
  /// 0 of those that cut nothing or choose for themselves.
  int chunks_per_piece() const {
    const std::string& name = implementation().description().name;
    const std::size_t at = name.find("pieces_of_");
    return at == std::string::npos ? 0 : std::stoi(name.substr(at + 10));
  }
  std::string choice_of(const Case& inputs) {
    DeviceCase on_device(inputs, device());
    return implementation().plan(inputs.problem, on_device.arguments(), device())->info().choice;
  }
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

 private:
  int num_run_ = 0, num_anothers_ = 0;
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
    for (const float sum : {-79.f, -80.f, -80.4f, -80.41f, -88.f, -120.f, -700.f}) {
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
  expect_all_agree(with("heads=1/2,seq=100+40+0+113,h0=normal,gates=mid,output_slots=other",
                        {"slots=permuted", "slots=padding,state=bf16"}));
}

// Counts at, before and behind multiples of a chunk, many in one chunk, more parts than slots; every way that gates
// come; beside sequences that have none.
TEST_P(ChannelSm90, StatesInsideACall) {
  if (chunks_per_piece() > 0)
    GTEST_SKIP() << "sequences stay whole, as cuda/channel_sm90_invariant's";
  expect_all_agree(with(
      "heads=1/2,gates=mid",
      {"seq=150+16+0+33+1,h0=normal,checkpoints=5",
       "seq=97+16+40,h0=normal,slots=padding,norm=1,checkpoints=3,checkpoint_dtype=bf16,layout=vk",
       "seq=64+2,gate=logits,beta=logit,checkpoints=30,checkpoint_dtype=f16",
       "seq=33+20,gate=decay,ht=0,checkpoints=2", "seq=0+0,checkpoints=2"}));
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

// Lengths are read on the device at each run, as are the slots: other sequences have the pieces, and
// what a run before has left in the workspace is not taken for anything.
TEST_P(ChannelSm90, APlanServesOtherLengths) {
  for (const char* options :
       {"seq=300+0+65+35,slots=permuted,h0=normal", "seq=100+100+100+100,h0=absent",
        "seq=380+20+0+0,slots=padding,h0=normal"}) {
    SCOPED_TRACE(options);
    Case inputs = case_of(std::string("heads=1/2,gates=near_one,dtype=bf16,") + options);
    DeviceCase on_device(inputs, device());
    const auto plan = implementation().plan(inputs.problem, on_device.arguments(), device());
    const std::vector<std::int64_t>& planned = inputs.problem.sequences.lengths;
    for (const std::vector<std::int64_t>& lengths :
         {planned, {1, 269, 130, 0}, {0, 0, 0, 400}, {17, 3, 48, 49}, {0, 0, 0, 0}, planned}) {
      Case other = inputs;
      other.problem.sequences.lengths = lengths;
      other.sequence_offsets = other.problem.sequences.offsets();
      const auto tokens = static_cast<std::size_t>(other.problem.total_tokens());
      const auto keep = [&](std::vector<float>& values) {
        values.resize(values.size() / 400 * tokens);
      };
      for (const char* name : {"q", "k", "v", "log_decay", "beta"}) keep(other[name]);
      SCOPED_TRACE(other.problem.to_string());
      device().upload(const_cast<void*>(on_device.arguments().input("sequence_offsets")),
                      other.sequence_offsets.data(), 5 * 8);
      on_device.reset_async();
      plan->run();
      Outputs outputs = on_device.download();
      if (tokens == 0) continue;
      keep(outputs["output"]);
      const auto report = reference::compare(other, reference::evaluate<double>(other), outputs);
      EXPECT_EQ(reference::violation(report, report.limits), "");
    }
  }
}

// Where sequences are cut, of gates that do not forget. The second piece starts from the state that the first one leaves:
// both have the bits that they have whole. Starts behind them are products and sums.
TEST_P(ChannelSm90, CutsLongSequences) {
  const Case inputs = case_of("heads=1/1,seq=32+250+160+96+5,h0=normal,gates=near_one,dtype=bf16");
  const Implementation& whole =
      find_implementation(gated_delta_operation(), "cuda/channel_sm90_invariant");
  const Outputs expected = execute(whole, inputs, device()),
                got = execute(implementation(), inputs, device());
  const int chunks = chunks_per_piece();
  std::int64_t first = 0;
  for (const std::int64_t length : inputs.problem.sequences.lengths) {
    const bool in_two = chunks == 0 || length <= 2 * chunks * 16;
    EXPECT_EQ(same_bits(token_range(got["output"], kDim, first, first + length),
                        token_range(expected["output"], kDim, first, first + length)),
              in_two)
        << length;
    first += length;
  }
}

TEST_P(ChannelSm90, PlansPiecesOfALongSequence) {
  const Case inputs = case_of("heads=1/2,seq=3000,h0=normal,gates=near_one,dtype=bf16");
  const std::string choice = choice_of(inputs);
  const bool is_invariant = implementation().description().name == "cuda/channel_sm90_invariant";
  EXPECT_EQ(choice.find("piece_chunks=0 ") == 0, is_invariant) << choice;
  if (chunks_per_piece() > 0) {
    EXPECT_EQ(choice.find("piece_chunks=" + std::to_string(chunks_per_piece()) + " "), 0U);
  }
  EXPECT_EQ(implementation().description().batch_invariant, !is_planned());
  expect_agrees(inputs);
}

// States that do not decay, or grow, pass all transitions of a sequence.
TEST_P(ChannelSm90, NothingIsForgotten) {
  expect_all_agree(with("heads=1/2,h0=large,gates=none",
                        {"seq=700", "seq=330,betas=two", "seq=330,betas=wide,state=f32"}));
  expect_all_agree(with("heads=1/1,gates=none,seq=330+90", {"", "betas=zero,h0=normal"}));
}

// Heads whose gates forget begin their pieces early, from zeros; others beside them take states from the
// pieces before. Gates in several encodings, keys normalised inside and not, initial states that are there and are not.
TEST_P(ChannelSm90, HeadsThatForgetBesideOthers) {
  Case inputs = case_of("heads=1/3,seq=300+0+130+17,gates=near_one,h0=large,dtype=bf16");
  std::vector<float>& gates = inputs["log_decay"];
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const std::size_t head = i / kDim % 3, token = i / kDim / 3;
    if (head == 1) gates[i] -= 1.0f;
    if (head == 2 && token >= 150) gates[i] -= 1.0f;  // the later pieces alone could
  }
  expect_agrees(inputs);
  expect_all_agree(
      with("heads=1/2,seq=300+130",
           {"gates=strong,h0=large,slots=padding", "gates=strong,h0=normal,norm=1,gate=decay",
            "gates=strong,gate=logits,beta=logit",
            "gates=bounded,gate=bounded,beta=logit2,norm=1,layout=vk"}));
}

// One channel that does not decay keeps a state, for keys mix the channels.
TEST_P(ChannelSm90, OneChannelKeepsAHeadFromForgetting) {
  Case inputs = case_of("heads=1/2,seq=500,gates=none,h0=large,dtype=bf16");
  std::vector<float>& gates = inputs["log_decay"];
  for (const std::int64_t channel : {0, 77, 127}) {
    SCOPED_TRACE(channel);
    for (std::size_t i = 0; i < gates.size(); ++i)
      gates[i] = static_cast<std::int64_t>(i) % kDim == channel ? -0.001f : -5.0f;
    expect_agrees(inputs);
  }
}

// A piece begins no earlier than it must: what lies before the chunks that suffice to forget is not read. Here they are
// four: 16 tokens of decays of 2^-0.75 are 12 bits. Where beta |k|^2 is 2.4 for equal keys, updates let a state grow by
// 0.5 bits a token, and as much is left of four chunks' decays that it is read.
TEST_P(ChannelSm90, PiecesOfAHeadThatForgetsReadNoMoreThanTheyMust) {
  const int chunks = chunks_per_piece();
  if (chunks == 0) GTEST_SKIP() << "pieces are the planner's";
  constexpr std::int64_t kTokens = 200, kLarge = 16;
  // the first piece that begins four chunks behind the tokens whose values are large
  const std::int64_t first = (4 + chunks) / chunks * chunks * 16;
  for (const bool grows : {false, true}) {
    Case inputs = case_of("heads=1/1,seq=200,gates=-0.52,h0=normal,dtype=bf16" +
                          std::string(grows ? ",keys=equal,betas=two" : ""));
    if (grows) {
      for (float& x : inputs["k"]) x *= std::sqrt(1.2f);
      round_in_place(DType::bfloat16, inputs["k"].data(),
                     static_cast<std::int64_t>(inputs["k"].size()));
    }
    const Outputs expected = execute(implementation(), inputs, device());
    for (std::int64_t i = 0; i < kLarge * kDim; ++i)
      inputs["v"][static_cast<std::size_t>(i)] = std::ldexp(1.0f, 90);
    const Outputs got = execute(implementation(), inputs, device());
    const auto is_same = [&](std::int64_t begin, std::int64_t end) {
      return same_bits(token_range(got["output"], kDim, begin, end),
                       token_range(expected["output"], kDim, begin, end));
    };
    EXPECT_FALSE(is_same(first - 1, first));
    EXPECT_EQ(is_same(first, kTokens), !grows);
    EXPECT_EQ(same_bits(got["final_state"], expected["final_state"]), !grows);
  }
}

// Short sequences are cuda/decode's up to where the two were measured to cross.
TEST_P(ChannelSm90, ShortSequencesAreLeftToDecode) {
  if (!is_planned()) GTEST_SKIP() << "cuda/channel_sm90 comes before it where either may be taken";
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
    if (one->description().name.find("cuda/channel_sm90") == 0) found.push_back(one);
  if (!found.empty())
    for (const int chunks : {1, 3}) found.push_back(&in_pieces(chunks));
  return found;
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ChannelSm90);
INSTANTIATE_TEST_SUITE_P(All, ChannelSm90, testing::ValuesIn(channel_sm90()), test_name);

}  // namespace
}  // namespace gdn
