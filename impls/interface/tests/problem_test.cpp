// Problem's text form is its identity: it must round-trip, have one spelling, and refuse what it
// does not understand with a line that names the field.
#include "interface/problem.h"

#include <gtest/gtest.h>

#include "interface/error.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_layer.h"

namespace gdn {
namespace {

// A small generator of its own, so that a failing case is reproduced by the seed printed.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  std::int64_t below(std::int64_t bound) {
    state_ += 0x9e3779b97f4a7c15ull;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return static_cast<std::int64_t>((z ^ (z >> 31)) % static_cast<std::uint64_t>(bound));
  }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + below(static_cast<std::int64_t>(values.size())));
  }

 private:
  std::uint64_t state_;
};

Problem random_problem(std::uint64_t seed) {
  Draw draw(seed);
  Problem p;
  p.operation = operations()[static_cast<std::size_t>(
      draw.below(static_cast<std::int64_t>(operations().size())))];
  p.num_key_heads = 1 + draw.below(32);
  p.num_value_heads = p.num_key_heads * (1 + draw.below(4));
  p.key_head_dim = 1 + draw.below(256);
  p.value_head_dim = 1 + draw.below(512);
  p.sequences.lengths.clear();
  for (std::int64_t n = 1 + draw.below(6); n > 0; --n) {
    const std::int64_t length = draw.one_of<std::int64_t>({0, 1, 63, 64, 65, 4096});
    p.sequences.lengths.insert(p.sequences.lengths.end(),
                               static_cast<std::size_t>(1 + draw.below(3)), length);
  }
  p.update = draw.one_of({UpdateRule::delta, UpdateRule::additive});
  if (p.operation != gated_delta_layer_operation()) p.steps = 1 + draw.below(4);
  p.decay = draw.one_of({DecayPer::head, DecayPer::channel});
  p.token_dtype = draw.one_of({DType::float32, DType::bfloat16, DType::float16});
  if (draw.below(2) == 0) p.output_dtype = DType::float32;
  p.state_dtype = draw.one_of({DType::float32, DType::bfloat16, DType::float16});
  p.state_layout = draw.one_of({StateLayout::kv, StateLayout::vk});
  p.initial_state = draw.one_of({InitialState::absent, InitialState::normal, InitialState::large});
  p.final_state = draw.below(2) == 0;
  p.slots = draw.one_of({SlotMap::identity, SlotMap::permuted, SlotMap::padding});
  p.pool_row_padding = draw.below(9);
  if (p.state_dtype != DType::float32 && p.final_state) {
    p.state_rounding = draw.one_of({StateRounding::nearest, StateRounding::stochastic});
  }
  p.normalize_qk = draw.below(2) == 0;
  if (draw.below(2) == 0) p.scale = static_cast<double>(draw.below(1000)) / 7.0;
  p.gate_encoding =
      draw.one_of({GateEncoding::log_decay, GateEncoding::decay, GateEncoding::neg_log_decay,
                   GateEncoding::logits, GateEncoding::bounded});
  p.beta_encoding = draw.one_of({BetaEncoding::beta, BetaEncoding::logit, BetaEncoding::logit2});
  if (p.beta_encoding != BetaEncoding::beta) {
    p.logit_type = draw.one_of({LogitType::float32, LogitType::token});
  }
  p.chunk = draw.one_of<std::int64_t>({0, 16, 64, 256});
  p.conv_width = 2 + draw.below(14);
  p.conv_bias = draw.below(2) == 0;
  p.activation = draw.one_of({Activation::none, Activation::silu});
  p.conv_layout = draw.one_of({ConvLayout::channels, ConvLayout::time});
  p.conv_state_in_place = draw.below(2) == 0;
  if (p.conv_state_in_place) {
    p.conv_window =
        draw.one_of({ConvWindow::carried, ConvWindow::read, ConvWindow::written, ConvWindow::none});
  }
  if (p.conv_window != ConvWindow::none) {
    p.window_layout = draw.one_of({WindowLayout::time, WindowLayout::channels});
    p.window_length = draw.one_of<std::int64_t>({0, p.conv_width - 1, p.conv_width, 40});
    p.window_order = draw.one_of({WindowOrder::oldest_first, WindowOrder::ring});
  }
  p.fresh_windows = p.reads_conv_window() && draw.below(2) == 0;
  p.conv_residual = draw.one_of({ConvResidual::none, ConvResidual::input, ConvResidual::tensor});
  if (draw.below(2) == 0) p.conv_weight_dtype = DType::float32;
  p.gated_norm = draw.below(2) == 1;
  p.norm_gate = draw.one_of({NormGate::silu, NormGate::sigmoid, NormGate::sigmoid2});
  p.norm_eps = draw.one_of({1e-6, 1e-5, static_cast<double>(1 + draw.below(1000)) / 7.0});
  p.gates = draw.one_of({GateDistribution::real, GateDistribution::none, GateDistribution::reset});
  // A bounded gate cannot say a reset, and no other has a bound.
  if (p.gate_encoding == GateEncoding::bounded) {
    p.gates = draw.one_of({GateDistribution::real, GateDistribution::bounded});
    p.decay_bound = draw.one_of({5.0, 0.25, static_cast<double>(1 + draw.below(30)) / 7.0});
  }
  // A logit cannot say a beta above 1, which `wide` draws.
  if (p.beta_encoding != BetaEncoding::logit) {
    p.betas = draw.one_of({BetaDistribution::sigmoid, BetaDistribution::wide});
  }
  p.keys = draw.one_of({KeyDistribution::unit, KeyDistribution::equal});
  p.seed = static_cast<std::uint64_t>(draw.below(1 << 30));
  if (draw.below(2) == 0) p.channels = 1 + draw.below(9000);
  // Of gradients: that of a residual tensor is what is handed over.
  if (p.conv_residual == ConvResidual::tensor && p.operation->find("residual") == nullptr) {
    p.conv_residual = ConvResidual::input;
  }
  const Problem plain;
  if (!p.operation->has_field("channels")) p.channels = 0;
  for (const ProblemField& field : problem_fields()) {  // what it does not look at stays
    const bool of_the_norm = field.key == "norm_gate" || field.key == "norm_eps";
    const bool without_norm = p.operation->has_field("gated_norm") && !p.gated_norm && of_the_norm;
    const bool unsaid = without_norm || is_replaced(field, p);
    if (!p.operation->has_field(field.key) || unsaid) field.set(p, field.get(plain));
  }
  return p;
}

// The message of the Error that `text` raises; empty if it parses.
std::string refusal(const std::string& text) {
  try {
    Problem::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << text;
    return error.what();
  }
  return "";
}

TEST(Problem, RandomProblemsPrintAndParseBack) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const Problem problem = random_problem(seed);
    const std::string text = problem.to_string();
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + text);
    const Problem again = Problem::parse(text);
    EXPECT_EQ(again, problem);
    EXPECT_EQ(again.to_string(), text);
  }
}

TEST(Problem, DifferentProblemsHaveDifferentStrings) {
  for (std::uint64_t seed = 1; seed < 300; ++seed) {
    const Problem a = random_problem(seed);
    const Problem b = random_problem(seed + 1);
    EXPECT_EQ(a == b, a.to_string() == b.to_string()) << a.to_string() << " / " << b.to_string();
  }
}

TEST(Problem, FieldOrderAndSpellingDoNotChangeTheCanonicalString) {
  const std::string canonical =
      "gated_delta:heads=16/32,dim=128x128,seq=4x8192,dtype=bf16,chunk=64";
  EXPECT_EQ(
      Problem::parse("gated_delta:chunk=64,dtype=bfloat16,seq=8192+3x8192,dim=128,heads=16/32")
          .to_string(),
      canonical);
  EXPECT_EQ(Problem::parse(canonical).to_string(), canonical);
}

TEST(Problem, DefaultsAreLeftOutOfTheCanonicalString) {
  EXPECT_EQ(Problem::parse("gated_delta:gates=real,seed=1,ht=1,scale=auto").to_string(),
            "gated_delta:heads=1/1,dim=128x128,seq=1x64,dtype=f32");
}

TEST(Problem, ChannelsOfNoHeadsStandInThePlaceOfHeadsAndDims) {
  const std::string text = "causal_conv1d:channels=5,seq=1x9,dtype=f32";
  const Problem problem = Problem::parse("causal_conv1d:seq=9,channels=5");
  EXPECT_EQ(problem.to_string(), text);
  EXPECT_EQ(Problem::parse(text), problem);
  EXPECT_EQ(problem.conv_channels(), 5);
  const Problem of_heads = Problem::parse("causal_conv1d:heads=2/4,dim=3x7,seq=9,channels=auto");
  EXPECT_EQ(of_heads.to_string(), "causal_conv1d:heads=2/4,dim=3x7,seq=1x9,dtype=f32");
  EXPECT_EQ(of_heads.conv_channels(), 2 * 2 * 3 + 4 * 7);
}

TEST(Problem, VariantsArePartOfTheCanonicalStringOnlyWhereTheyDifferFromTheGatedDeltaRule) {
  EXPECT_EQ(Problem::parse("gated_delta:update=delta,steps=1,decay=head").to_string(),
            "gated_delta:heads=1/1,dim=128x128,seq=1x64,dtype=f32");
  EXPECT_EQ(Problem::parse("gated_delta:decay=channel,steps=2,update=additive").to_string(),
            "gated_delta:heads=1/1,dim=128x128,seq=1x64,dtype=f32,update=additive,steps=2,"
            "decay=channel");
}

TEST(Problem, ArrayExtentsFollowTheVariant) {
  const Problem p = Problem::parse("gated_delta:heads=2/6,dim=8x5,steps=3,decay=channel");
  EXPECT_EQ(p.keys_per_token(), 3 * 2 * 8);
  EXPECT_EQ(p.values_per_token(), 3 * 6 * 5);
  EXPECT_EQ(p.betas_per_token(), 3 * 6);
  EXPECT_EQ(p.gates_per_token(), 6 * 8);
}

TEST(Problem, MalformedTextIsRefusedWithTheFieldNamed) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "operation"},
      {"gated_dleta", "did you mean 'gated_delta'"},
      {"gated_delta:heads", "field=value"},
      {"gated_delta:heds=2/4", "did you mean 'heads'"},
      {"gated_delta:heads=2/4,heads=2/4", "'heads' is given twice"},
      {"gated_delta:heads=2/5", "multiple of the key heads"},
      {"gated_delta:heads=0/4", "heads"},
      {"gated_delta:heads=2/x", "heads"},
      {"gated_delta:heads=-2/4", "heads"},
      {"gated_delta:dim=128x", "dim"},
      {"gated_delta:dim=99999", "dim"},
      {"gated_delta:seq=", "seq"},
      {"gated_delta:seq=4x-1", "seq"},
      {"gated_delta:seq=0x8", "seq"},
      {"gated_delta:seq=4x8192+", "seq"},
      {"gated_rms_norm:seq=1x2147483648", "2^31 tokens or more"},
      {"gated_rms_norm:seq=1x2000000000+1x2000000000", "expected fewer than 2^31"},
      {"gated_delta:slots=permuted,pool_rows=2147483648", "expected fewer than 2^31"},
      {"gated_delta:seq=99999999999999999999", "seq"},
      {"gated_delta:dtype=fp8", "dtype"},
      {"gated_delta:out=bf16", "out"},
      {"gated_delta:scale=nan", "scale"},
      {"gated_delta:scale=1e", "scale"},
      {"gated_delta:gates=sometimes", "gates"},
      {"gated_delta:gates=-1..1", "gates"},
      {"gated_delta:gates=-1..-2", "gates"},
      {"gated_delta:gates=0.5", "gates"},
      {"gated_delta:gates=-1..", "gates"},
      {"gated_delta:betas=0..3", "betas"},
      {"gated_delta:betas=-1", "betas"},
      {"gated_delta:ht=yes", "ht"},
      {"gated_delta:update=additiv", "did you mean 'additive'"},
      {"gated_delta:steps=0", "steps"},
      {"gated_delta:steps=17", "steps=17: expected 1..16"},
      {"gated_delta:decay=token", "decay"},
      {"gated_delta_layer:steps=2", "one key and value per token"},
      {"causal_conv1d:update=additive", "does not look at update"},
      {"causal_conv1d:decay=channel", "does not look at decay"},
      {"causal_conv1d:channels=0", "channels: '0'"},
      {"causal_conv1d:channels=-5", "channels"},
      {"causal_conv1d:channels=many", "channels"},
      {"causal_conv1d:channels=268435457", "channels=268435457: expected auto or 1..268435456"},
      {"causal_conv1d:channels=5,heads=2/4", "heads=2/4 stands beside channels=5; expected one"},
      {"causal_conv1d:dim=64,channels=5", "dim=64x64 stands beside channels=5; expected one"},
      {"causal_conv1d:window=kept", "window"},
      {"causal_conv1d:window=read,conv_in_place=0",
       "window=read is one array; conv_in_place=0 needs window=carried"},
      {"causal_conv1d:window_layout=channels,window=none",
       "window_layout=channels: window=none has no windows"},
      {"gated_delta_layer:window_length=4,window=none",
       "window_length=4: window=none has no windows"},
      {"causal_conv1d:window_length=2", "window_length=2: width=4 expects auto or 3..65536"},
      {"gated_delta_layer:width=9,window_length=7", "width=9 expects auto or 8..65536"},
      {"causal_conv1d:window_length=65537", "window_length=65537: width=4 expects auto or"},
      {"causal_conv1d:fresh=1,window=written", "fresh=1: window=written reads no windows"},
      {"gated_delta_layer:fresh=1,window=none", "fresh=1: window=none reads no windows"},
      {"causal_conv1d:window_order=newest_first", "window_order"},
      {"causal_conv1d:window_order=ring,window=none",
       "window_order=ring: window=none has no windows"},
      {"gated_delta_layer:window_order=ring", "gated_delta_layer does not look at window_order"},
      {"gated_delta_layer:residual=1", "gated_delta_layer does not look at residual"},
      {"causal_conv1d:residual=2", "residual: unknown value '2'; expected 0|1|tensor"},
      {"gated_delta:window=read", "gated_delta does not look at window"},
      {"causal_conv1d:dtype=bf16,weights=bf16", "weights: 'bf16'; expected token or f32"},
      {"gated_rms_norm:dtype=bf16,weights=f32", "gated_rms_norm does not look at weights"},
      {"gated_delta:channels=5", "channels=5: gated_delta does not look at channels"},
      {"gated_delta_layer:channels=5", "gated_delta_layer does not look at channels"},
      {"gated_rms_norm:channels=5", "gated_rms_norm does not look at channels"},
      {"gated_rms_norm:slots=permuted", "does not look at slots"},
      {"gated_delta:gate=bounded,bound=0", "bound=0: expected a number above 0, at most 5"},
      {"gated_delta:gate=bounded,bound=-1", "bound=-1: expected"},
      {"gated_delta:gate=bounded,bound=5.01", "bound=5.01: expected"},
      {"gated_delta:gate=bounded,bound=inf", "bound=inf: expected"},
      {"gated_delta:gate=bounded,bound=nan", "bound"},
      {"gated_delta:bound=2", "bound=2 needs gate=bounded"},
      {"gated_delta:gate=logits,bound=2", "bound=2 needs gate=bounded"},
      {"gated_delta_backward:bound=2", "bound=2 needs gate=bounded"},
      {"causal_conv1d:bound=2", "does not look at bound"},
      {"gated_delta:gate=bounded,gates=reset", "gate=bounded cannot hold log decays below -bound"},
      {"gated_delta:gate=bounded,gates=-2..0,bound=1", "beyond -1"},
      {"gated_delta:checkpoints=1,checkpoint_dtype=i4", "expected state, f32, bf16, f16 or i8"},
      {"gated_delta:checkpoint_dtype=i8", "checkpoint_dtype needs checkpoints above 0"},
      {"gated_delta:state=i8", "'i8' is no element type; expected f32, bf16 or f16"},
      {"gated_delta:dtype=int8", "'int8' is no element type"},
      {"gated_delta:norm_eps=1e-5", "does not look at norm_eps"},
      {"gated_delta_layer:norm_eps=1e-5", "need gated_norm=1"},
      {"gated_delta:gated_norm=1", "does not look at gated_norm"},
      {"gated_rms_norm:norm_eps=0", "norm_eps=0: expected"},
      {"gated_rms_norm:norm_eps=-1e-6", "norm_eps=-1e-06: expected"},
      {"gated_rms_norm:norm_eps=inf", "norm_eps=inf: expected"},
      {"gated_rms_norm:norm_eps=nan", "expected norm_eps=NUMBER"},
      {"gated_rms_norm:norm_eps=1e-6x", "norm_eps"},
      {"gated_rms_norm:norm_gate=relu", "norm_gate"},
      {"gated_delta:width=1", "width"},
      {"gated_delta:width=16", "width"},
      {"gated_delta:chunk=0", "chunk"},
      {"gated_delta:logits=bf16,gate=logits", "logits"},
      {"gated_delta:logits=token,beta=beta", "logits=token needs logits"},
      {"gated_delta_backward:logits=token,gate=logits", "does not look at logits"},
      {"gated_delta_training:update=additive", "does not look at update"},
      {"gated_delta_training:out=f32", "does not look at out"},
      {"gated_delta_layer_backward:checkpoints=2", "does not look at checkpoints"},
      {"gated_delta_layer_backward:conv_layout=time", "does not look at conv_layout"},
      {"gated_delta_layer_backward:norm_eps=1e-5", "need gated_norm=1"},
      {"gated_delta_layer_backward:fresh=1,window=none", "reads no windows"},
      {"gated_delta:seed=-1", "seed"},
  };
  for (const auto& [text, expected] : bad) {
    const std::string message = refusal(text);
    EXPECT_NE(message.find(expected), std::string::npos)
        << "'" << text << "' gave '" << message << "', expected it to name '" << expected << "'";
    EXPECT_EQ(message.find('\n'), std::string::npos) << "more than one line: " << message;
  }
}

TEST(Problem, DistributionsMayBeRangesOrConstants) {
  const std::string rest = "gated_delta:heads=1/1,dim=8x8,seq=1x64,dtype=f32,gates=-20..";
  const std::string text = rest + "-1e-04,betas=0.835";  // the shortest form of each number
  const Problem problem = Problem::parse(rest + "-0.0001,betas=0.8350");
  EXPECT_EQ(problem.gates, GateDistribution::uniform);
  EXPECT_EQ(problem.gate_range, (ValueRange{-20, -0.0001}));
  EXPECT_EQ(problem.beta_range, (ValueRange{0.835, 0.835}));
  EXPECT_EQ(problem.to_string(), text);
  EXPECT_EQ(Problem::parse(problem.to_string()), problem);
}

TEST(SequenceLengths, RunLengthEncodingAndOffsetsAgree) {
  const SequenceLengths lengths = SequenceLengths::parse("2x3+0+1x5");
  EXPECT_EQ(lengths.lengths, (std::vector<std::int64_t>{3, 3, 0, 5}));
  EXPECT_EQ(lengths.offsets(), (std::vector<std::int64_t>{0, 3, 6, 6, 11}));
  EXPECT_EQ(lengths.to_string(), "2x3+1x0+1x5");
  EXPECT_EQ(lengths.total_tokens(), 11);
  EXPECT_EQ(lengths.longest(), 5);
  EXPECT_EQ(SequenceLengths::from_offsets(lengths.offsets()), lengths);
}

TEST(SequenceLengths, OffsetsThatStepBackOrDoNotStartAtZeroAreRefused) {
  EXPECT_THROW(SequenceLengths::from_offsets({0, 5, 4}), Error);
  EXPECT_THROW(SequenceLengths::from_offsets({1, 5}), Error);
  EXPECT_THROW(SequenceLengths::from_offsets({0}), Error);
}

TEST(NearestName, FindsTheSmallestEditDistance) {
  EXPECT_EQ(nearest_name("--chnk", {"--chunk", "--seq", "--heads"}), "--chunk");
  EXPECT_EQ(nearest_name("x", {}), "");
}

}  // namespace
}  // namespace gdn
