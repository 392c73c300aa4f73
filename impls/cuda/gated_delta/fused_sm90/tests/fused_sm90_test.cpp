// The Hopper kernel over its own shapes (128x128 heads and others, 16-bit tokens), where the grids over every
// implementation have few problems it supports; and what only a kernel that loads boxes of tokens
// and splits sequences can get wrong. On a device of compute capability 9.0 or emulated.
#include <cmath>
#include <limits>
#include <regex>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"
#include "reference/errors.h"
#include "reference/reference.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

class FusedSm90 : public ImplementationTest {
 protected:
  using ImplementationTest::expect_agrees;
  /// Emulated, cuda/fused_sm90 is run only where it plans what neither of the others does: what it
  /// plans as they do is launched as they launch it, and is their test. On a card all are run.
  void expect_agrees(const Case& inputs) override {
    if (emulated() && implementation().description().name == "cuda/fused_sm90" &&
        plans_as_another(inputs)) {
      ++num_anothers_;
      return;
    }
    ++num_run_;
    ImplementationTest::expect_agrees(inputs);
  }
  void TearDown() override {
    if (num_anothers_ > 0 && num_run_ == 0) GTEST_SKIP() << "every plan is another's, tested there";
  }
  bool plans_as_another(const Case& inputs) {
    DeviceCase on_device(inputs, device());
    const auto choice_of = [&](const Implementation& form) {
      return form.plan(inputs.problem, on_device.arguments(), device())->info().choice;
    };
    const std::string choice = choice_of(implementation());
    for (const char* other : {"cuda/fused_sm90_invariant", "cuda/fused_sm90_one_launch"}) {
      const Implementation& form = find_implementation(gated_delta_operation(), other);
      if (form.supports(inputs.problem) && choice == choice_of(form)) return true;
    }
    return false;
  }
  static std::vector<std::string> with(const std::string& options,
                                       const std::vector<std::string>& each) {
    std::vector<std::string> problems;
    for (const std::string& one : each)
      for (const char* dtype : {"bf16", "f16"})
        problems.push_back("gated_delta:dim=128,dtype=" + std::string(dtype) + "," + options +
                           (one.empty() ? "" : "," + one));
    return problems;
  }
  /// The outputs of a case whose tokens from `nan_from` on are NaN on the device, gates included.
  Outputs run_with_nan(const Case& inputs, std::int64_t nan_from) {
    DeviceCase on_device(inputs, device());
    on_device.reset_async();
    const std::int64_t tokens = inputs.problem.total_tokens();
    for (const Operand& operand : inputs.problem.operation->operands) {
      if (operand.role != Role::input || !is_present(operand, inputs.problem) ||
          operand.is_index() || cut_of(operand, inputs.problem) != Cut::tokens) {
        continue;
      }
      const std::int64_t per_token =
          elements_per_token(operand, inputs.problem) *
          static_cast<std::int64_t>(size_of(operand.dtype(inputs.problem)));
      auto* array =
          static_cast<char*>(const_cast<void*>(on_device.arguments().input(operand.name)));
      device().fill_async(array + nan_from * per_token, 0xff, (tokens - nan_from) * per_token);
    }
    implementation().plan(inputs.problem, on_device.arguments(), device())->run();
    return on_device.download();
  }

 private:
  int num_run_ = 0, num_anothers_ = 0;
};

TEST_P(FusedSm90, EveryLengthModulo64) {
  std::string lengths = "0";
  for (int length = 1; length <= 65; ++length) lengths += "+" + std::to_string(length);
  for (int length = 128; length < 192; length += 5) lengths += "+" + std::to_string(length);
  expect_all_agree(with("heads=1/2,gates=mid,h0=normal,seq=" + lengths, {""}));
}

TEST_P(FusedSm90, GatesBetasAndKeys) {
  const std::string shape =
      emulated() ? "heads=1/2,seq=130+0+64+1+200" : "heads=2/4,seq=200+0+64+1+333";
  expect_all_agree(
      with(shape + ",h0=normal", {"gates=real", "gates=none", "gates=weak", "gates=near_one",
                                  "gates=strong", "gates=mid", "gates=reset", "gates=tiny"}));
  const std::string length = emulated() ? "200" : "300";
  for (const char* betas : {"sigmoid", "zero", "one", "two", "wide"})
    expect_all_agree(with("heads=1/2,gates=near_one,seq=" + length + ",betas=" + betas,
                          {"keys=unit", "keys=zero"}));
  // Parallel keys: the harder, the longer the memory and the larger beta; beyond these the rounding
  // of the inverse to 16 bits is the limit (numerics.md of the kernels).
  for (const char* keys : {"correlated", "equal", "alternating"}) {
    for (const char* betas : {"sigmoid", "zero", "one", "two", "wide"})
      expect_all_agree(
          {"gated_delta:heads=1/2,dim=128,seq=300,dtype=bf16,gates=mid,h0=normal,betas=" +
           std::string(betas) + ",keys=" + keys});
    for (const char* betas : {"sigmoid", "zero", "one"})
      expect_all_agree({"gated_delta:heads=1/2,dim=128,seq=300,dtype=f16,gates=near_one,betas=" +
                        std::string(betas) + ",keys=" + keys});
  }
}

TEST_P(FusedSm90, KeysOfAnyLength) {
  expect_all_agree(with("heads=2/4,seq=300+65,gates=mid,h0=normal",
                        {"keys=unnormalised,norm=1", "norm=1", "keys=zero,norm=1"}));
  // no normalisation: entries of the triangular systems and of their inverses (gates=mid) far
  // beyond float16
  for (const char* gates : {"strong", "mid"}) {
    expect_all_agree(
        {"gated_delta:heads=2/2,dim=128,seq=40+65,dtype=bf16,keys=unnormalised,gates=" +
         std::string(gates)});
  }
}

TEST_P(FusedSm90, GroupedValueHeads) {
  expect_all_agree(
      with("seq=130+0+257,gates=mid,h0=normal",
           {"heads=1/1", "heads=2/4", "heads=2/6", "heads=1/4", "heads=1/5", "heads=1/8"}));
}

TEST_P(FusedSm90, StatesSlotsAndLayouts) {
  for (const char* state : {"f32", "bf16", "f16"})
    for (const char* layout : {"kv", "vk"})
      expect_all_agree(with((emulated() ? "heads=1/2" : "heads=2/4") +
                                std::string(",seq=100+70+0+129,h0=normal,gates=mid,pool_pad=24") +
                                ",state=" + state + ",layout=" + layout,
                            {"slots=identity", "slots=permuted", "slots=padding"}));
  expect_all_agree(with("heads=1/2,seq=200,gates=mid",
                        {"h0=large", "h0=absent,ht=0", "h0=normal,ht=0", "scale=0.5"}));
}

TEST_P(FusedSm90, GateAndBetaEncodings) {
  for (const char* beta : {"beta", "logit"})
    expect_all_agree(with("heads=2/4,seq=100+77,beta=" + std::string(beta),
                          {"gates=reset,gate=log_decay", "gates=reset,gate=decay",
                           "gates=reset,gate=neg_log_decay", "gates=real,gate=logits"}));
  expect_all_agree(with("heads=2/4,seq=100+77,gates=bounded,beta=logit2",
                        {"gate=bounded", "gate=bounded,bound=0.25,betas=wide"}));
}

// Long enough, with few enough heads, for cuda/fused_sm90 to split sequences: exact transitions at
// weak gates, forgetting at strong ones, both in one batch.
// Two, four and sixteen steps fill the rows of a token; three, five and seven leave some empty. Whole chunks, whose
// outputs the copy engine stores, and last ones of every number of tokens.
TEST_P(FusedSm90, SeveralStepsPerToken) {
  std::string lengths = "0+70";
  for (int length = 1; length <= 33; length += emulated() ? 4 : 1)
    lengths += "+" + std::to_string(length);
  for (const char* steps : {"2", "3", "4"})
    expect_all_agree(with(
        "heads=1/2,gates=mid,h0=normal,slots=padding,seq=" + lengths + ",steps=" + steps, {""}));
  expect_all_agree(with("heads=1/2,gates=mid,h0=normal,seq=9+1+0+4+13",
                        {"steps=5", "steps=7", "steps=16", "steps=16,layout=vk,state=bf16"}));
  expect_all_agree(with("heads=1/2,seq=70+33,steps=3",
                        {"h0=normal,norm=1,keys=unnormalised", "h0=normal,gate=logits,beta=logit2",
                         "gate=decay,beta=logit", "h0=normal,gates=reset,ht=0",
                         "h0=normal,gates=near_one,betas=two"}));
  // In pieces, where a form makes them: near ones and far ones.
  expect_all_agree(with("heads=1/2,h0=normal,seq=1250,steps=2", {"gates=mid", "gates=none"}));
}

TEST_P(FusedSm90, LongSequences) {
  expect_all_agree(with(
      "heads=1/2,seq=2500,h0=normal",
      {"gates=none", "gates=weak", "gates=near_one", "gates=reset", "gates=tiny", "gates=strong"}));
  expect_all_agree(with("heads=2/4,h0=normal,state=bf16,layout=vk,slots=padding",
                        {"seq=3000+0+70+1024+1,gates=none", "seq=3000+0+70+1024+1,gates=weak"}));
  expect_all_agree(with("heads=1/2,gates=none,betas=two", {"seq=2048", "seq=2049,h0=large"}));
}

// From 64 chunks a sequence on, blocks take whole ones as they come, not by their numbers: as long
// as that, emulated too.
TEST_P(FusedSm90, LongWholeSequencesInTheOrderOfArrival) {
  expect_agrees(generate_case(Problem::parse(
      "gated_delta:heads=1/1,dim=128,dtype=bf16,gates=mid,h0=normal,seq=4200+4170")));
}

// Which pieces begin early by themselves, which from states made before: heads and stretches that
// forget at once, that take some chunks, and that never do, beside each other. Every piece near,
// some far, all far, then near again, by one plan. Initial states of two sizes: a large one shows
// what is left of it, and hides small faults of the outputs after it. Shapes for which one launch
// of the chain serves all gates, and such with two: for far gates pieces of which the first run
// beside the pieces kernel, by halves of V and not, pieces of which none does, and sequences whole.
TEST_P(FusedSm90, NearAndFarPieces) {
  constexpr float kAtOnce = -1.f, kSlowly = -0.09f, kNever = 0.f;  // log_decay of a token
  struct Gates {
    const char* name;
    float head[2];      // log_decay of even and odd heads, but in the stretch:
    double begin, end;  // parts of all tokens
    float stretch;
    bool of_large_problems;
  };
  const Gates all_near{"all near", {kAtOnce, kSlowly}, 0, 0, 0.f, true};
  const Gates every_gates[] = {all_near,
                               {"one head far", {kSlowly, kNever}, 0, 0, 0.f, false},
                               {"far at the end", {kAtOnce, kSlowly}, 0.6, 1, kNever, true},
                               {"far at the beginning", {kAtOnce, kSlowly}, 0, 0.48, kNever, false},
                               {"all far", {kNever, kNever}, 0, 0, 0.f, true},
                               all_near};
  const bool few = device().info().multiprocessors < 32;
  std::string choices;
  for (const std::string& shape : {
           std::string("heads=1/2,seq=2500,h0=normal"),
           std::string("heads=1/2,seq=700+1800,h0=normal"),
           std::string("heads=1/2,seq=700+1800,h0=large"),
           std::string(few ? "heads=1/2,seq=2500+2500" : "heads=8/32,seq=4096") + ",h0=normal",
           std::string(few ? "heads=1/5,seq=4x1500" : "heads=16/48,seq=4x2048") + ",h0=normal",
           std::string(few ? "heads=1/6,seq=6000" : "heads=16/48,seq=8192") + ",h0=normal",
           std::string(few ? "heads=1/3,seq=6000" : "heads=8/24,seq=28672+4096") + ",h0=normal",
       }) {
    Case inputs =
        generate_case(Problem::parse("gated_delta:dim=128,dtype=bf16,gates=none," + shape));
    if (inputs.problem.num_value_heads > 2 && implementation().description().batch_invariant)
      continue;  // never in pieces
    DeviceCase on_device(inputs, device());
    const auto plan = implementation().plan(inputs.problem, on_device.arguments(), device());
    choices += plan->info().choice + "\n";
    const std::int64_t tokens = inputs.problem.total_tokens(),
                       heads = inputs.problem.num_value_heads;
    for (const Gates& gates : every_gates) {
      if (heads > 2 && !gates.of_large_problems) continue;
      SCOPED_TRACE(inputs.problem.to_string() + ", " + gates.name + "; " + plan->info().choice);
      std::vector<float>& log_decay = inputs["log_decay"];
      for (std::int64_t token = 0; token < tokens; ++token) {
        const double part = static_cast<double>(token) / static_cast<double>(tokens);
        for (std::int64_t head = 0; head < heads; ++head)
          log_decay[static_cast<std::size_t>(token * heads + head)] =
              part >= gates.begin && part < gates.end ? gates.stretch : gates.head[head % 2];
      }
      on_device.reset_async();
      device().upload(const_cast<void*>(on_device.arguments().input("log_decay")), log_decay.data(),
                      static_cast<std::int64_t>(log_decay.size() * 4));
      plan->run();
      expect_outputs_agree(inputs, on_device.download());
    }
  }
  if (implementation().description().batch_invariant) return;
  for (const char* kind : {"far_v_split=2 far_pieces=[1-9][0-9]* firsts_beside=1",
                           "far_v_split=1 far_pieces=[1-9][0-9]* firsts_beside=1",
                           "far_pieces=[1-9][0-9]* firsts_beside=0", "far_pieces=0"}) {
    EXPECT_TRUE(std::regex_search(choices, std::regex(kind))) << kind << ":\n" << choices;
  }
}

// Heads of other than 128x128: columns of K and Q past Dk, panels of V past Dv, one panel and many; states in either
// layout and every type, padding, last chunks.
TEST_P(FusedSm90, HeadDims) {
  if (implementation().description().name == "cuda/fused_sm90_one_launch") {
    EXPECT_FALSE(implementation().supports(
        Problem::parse("gated_delta:heads=1/2,dim=96x192,seq=70,dtype=bf16")));
    GTEST_SKIP() << "128x128 alone";
  }
  for (const char* dim : {"64", "64x128", "96x192", "96x256", "128x64", "128x256", "104x320"}) {
    expect_all_agree({"gated_delta:heads=1/2,dtype=bf16,seq=70+0+3+64,gates=mid,h0=normal,dim=" +
                      std::string(dim)});
  }
  for (const char* pool :
       {"layout=vk,state=bf16,slots=padding", "layout=kv,state=f16,pool_pad=8,slots=permuted",
        "layout=vk,norm=1,output_slots=other,slots=permuted", "layout=kv,ht=0,norm=1"}) {
    for (const char* dim : {"96x192", "128x256"})
      expect_all_agree({"gated_delta:heads=2/4,dtype=f16,seq=130+70+1,gates=weak,h0=normal,dim=" +
                        std::string(dim) + "," + pool});
  }
}

// The same in pieces: near ones, far ones with states and transitions of every panel, saved initial states.
TEST_P(FusedSm90, HeadDimsInPieces) {
  if (implementation().description().name != "cuda/fused_sm90") GTEST_SKIP() << "never in pieces";
  for (const char* dim : {"96x192", "128x256"}) {
    for (const char* gates : {"none", "weak", "strong"}) {
      for (const char* layout : {"kv", "vk,state=bf16"}) {
        const Case inputs = generate_case(Problem::parse(
            "gated_delta:heads=1/1,dtype=bf16,seq=2500,h0=normal,dim=" + std::string(dim) +
            ",gates=" + gates + ",layout=" + layout));
        DeviceCase on_device(inputs, device());
        const std::string choice =
            implementation().plan(inputs.problem, on_device.arguments(), device())->info().choice;
        EXPECT_EQ(choice.find("piece_chunks=0"), std::string::npos) << choice;
        expect_agrees(inputs);
      }
    }
  }
}

// That sequences are split is the planner's choice; here it must have made it, and only where
// asked.
TEST_P(FusedSm90, SplitsALongSequenceUnlessItMustNot) {
  const Description& description = implementation().description();
  for (const char* gates : {"none", "near_one", "strong"}) {
    const Case inputs = generate_case(Problem::parse(
        "gated_delta:heads=1/1,dim=128,seq=2500,dtype=bf16,h0=normal,gates=" + std::string(gates)));
    DeviceCase on_device(inputs, device());
    const auto plan = implementation().plan(inputs.problem, on_device.arguments(), device());
    const std::string& choice = plan->info().choice;
    if (description.name == "cuda/fused_sm90_one_launch") {
      EXPECT_EQ(choice.find("one_launch"), 0u) << choice;
      EXPECT_EQ(plan->info().launches, 1);
    } else {
      EXPECT_EQ(choice.find("piece_chunks=0") != std::string::npos, description.batch_invariant)
          << choice;
    }
    expect_agrees(inputs);
  }
}

// T, P and factors are made by the same steps in every form, and the chain is one: which form the
// planner takes must not show. Ragged, with padding, in one part and in two (long keys); and shapes
// for which cuda/fused_sm90_invariant takes each of its two other forms, on a card large ones: one
// float32 rounding of V - S k more or less shows in one of some hundred thousand 16-bit V'.
TEST_P(FusedSm90, EveryWholeFormGivesTheSameBits) {
  if (!implementation().description().batch_invariant) GTEST_SKIP() << "may split sequences";
  if (implementation().description().name == "cuda/fused_sm90_one_launch")
    GTEST_SKIP() << "cuda/fused_sm90_invariant is compared with it";
  const Implementation& one_launch =
      find_implementation(gated_delta_operation(), "cuda/fused_sm90_one_launch");
  std::string choices;
  const auto compare_forms = [&](const std::string& problem) {
    const Case inputs =
        generate_case(Problem::parse("gated_delta:dim=128,dtype=bf16,h0=normal," + problem));
    DeviceCase on_device(inputs, device());
    const auto outputs_of = [&](const Implementation& form) {
      const auto plan = form.plan(inputs.problem, on_device.arguments(), device());
      choices += plan->info().choice + "\n";
      on_device.reset_async();
      plan->run();
      return on_device.download();
    };
    const Outputs one = outputs_of(implementation()), two = outputs_of(one_launch);
    EXPECT_TRUE(same_bits(one["output"], two["output"])) << inputs.problem.to_string();
    EXPECT_TRUE(same_bits(one["final_state"], two["final_state"])) << inputs.problem.to_string();
  };
  for (const char* options : {"gates=mid", "gates=reset,norm=1,keys=unnormalised",
                              "gates=strong,keys=unnormalised,layout=vk"})
    compare_forms("heads=2/4,slots=padding,seq=100+1+0+257+64," + std::string(options));
  const bool few = device().info().multiprocessors < 32;
  for (const char* shape : {few ? "heads=1/2,seq=100+70" : "heads=16/64,seq=2048",
                            few ? "heads=2/4,seq=100+70+64" : "heads=16/48,seq=2x4096"})
    for (const char* gates : {",gates=mid", ",gates=strong"})
      compare_forms(shape + std::string(gates));
  EXPECT_NE(choices.find("v_split=1"), std::string::npos) << choices;
  EXPECT_NE(choices.find("v_split=2"), std::string::npos) << choices;
}

// The one-launch form's work counter is back at its start after every run, however many items were
// empty.
TEST_P(FusedSm90, ASecondRunOfAPlanDoesAllWorkAgain) {
  const Case inputs = generate_case(Problem::parse(
      "gated_delta:heads=1/8,dim=128,dtype=bf16,gates=mid,slots=padding,seq=70+0+1+64+3"));
  DeviceCase on_device(inputs, device());
  const auto plan = implementation().plan(inputs.problem, on_device.arguments(), device());
  for (int run = 0; run < 3; ++run) {
    on_device.reset_async();
    plan->run();
    expect_outputs_agree(inputs, on_device.download());
  }
}

// Some eight items of one chunk, and two of two chunks, for each multiprocessor.
TEST_P(FusedSm90, ManyWorkItems) {
  const std::string options = ",dim=128,dtype=bf16,h0=normal,";
  if (device().info().multiprocessors < 32) {
    expect_all_agree({"gated_delta:heads=2/8" + options + "gates=mid,seq=5x3+12x1",
                      "gated_delta:heads=4/16" + options + "gates=weak,seq=2x70"});
  } else {
    expect_all_agree({"gated_delta:heads=2/8" + options + "gates=mid,seq=40x3+100x1",
                      "gated_delta:heads=8/32" + options + "gates=weak,seq=9x70"});
  }
}

// Boxes of 64 tokens reach into the next sequence, whose values must not reach a result.
TEST_P(FusedSm90, NanInTheNextSequenceStaysThere) {
  const Case inputs =
      generate_case(Problem::parse("gated_delta:heads=1/2,dim=128,seq=70+90,dtype=bf16,gates=mid,"
                                   "h0=normal"));
  const Outputs expected = run_with_nan(inputs, 160), got = run_with_nan(inputs, 70);
  EXPECT_TRUE(same_bits(token_range(got["output"], 2 * 128, 0, 70),
                        token_range(expected["output"], 2 * 128, 0, 70)));
  const std::int64_t row = inputs.problem.state_row_stride();
  EXPECT_TRUE(same_bits(token_range(got["final_state"], row, 0, 1),
                        token_range(expected["final_state"], row, 0, 1)));
  EXPECT_TRUE(std::isnan(got["output"][2 * 128 * 70]));
}

// Lengths are read on the device at each run: a captured graph serves others of the same total.
TEST_P(FusedSm90, AGraphServesOtherLengths) {
  const bool few = device().info().multiprocessors < 32;
  const std::string two_chains =  // with first pieces beside the pieces kernel
      few ? "heads=1/2,seq=2500+2500+0+0" : "heads=8/32,seq=4000+0+70+26";
  std::string choices;
  for (const std::string& options :
       {std::string("heads=1/2,gates=weak,seq=300+0+65+35"),
        std::string("heads=1/2,gates=weak,seq=2000+100+200+100"), two_chains + ",gates=weak",
        two_chains + ",gates=none", two_chains + ",gates=none,slots=padding"}) {
    const Case planned =
        generate_case(Problem::parse("gated_delta:dim=128,dtype=bf16,h0=normal," + options));
    DeviceCase on_device(planned, device());
    const std::unique_ptr<Plan> plan =
        implementation().plan(planned.problem, on_device.arguments(), device());
    const auto replay = device().capture([&] { plan->run(); });
    ASSERT_TRUE(replay);
    Case other = planned;
    const std::int64_t total = planned.problem.total_tokens();
    other.problem.sequences.lengths = {1, total - 131, 130, 0};
    other.sequence_offsets = other.problem.sequences.offsets();
    device().upload(const_cast<void*>(on_device.arguments().input("sequence_offsets")),
                    other.sequence_offsets.data(), 5 * 8);
    on_device.reset_async();
    replay();
    const Outputs outputs = on_device.download();
    const auto report = reference::compare(other, reference::evaluate<double>(other), outputs);
    EXPECT_EQ(reference::violation(report, report.limits), "")
        << options << "; " << plan->info().choice;
    choices += plan->info().choice + "\n";
  }
  if (!implementation().description().batch_invariant) {
    EXPECT_NE(choices.find("firsts_beside=1"), std::string::npos) << choices;
  }
}

// Beta goes with V - S k, not into T: through T it would cost one more rounding, 2.5 floors at
// gates none, 2.2 at weak. In chunks that forget, as at strong gates, a token's own update is not
// rounded on its way to the state either: 1.96 floors if it were.
TEST_P(FusedSm90, RoundsNoMoreThanItMust) {
  struct Bound {
    const char* gates;
    double floors;
  };
  for (const Bound& bound : {Bound{"none", 2.35}, Bound{"weak", 2.1}, Bound{"strong", 1.85}}) {
    const Case inputs = generate_case(
        Problem::parse("gated_delta:heads=1/2,dim=128,seq=512,dtype=bf16,h0=normal,gates=" +
                       std::string(bound.gates)));
    const Outputs outputs = execute(implementation(), inputs, device());
    const auto report = reference::compare(inputs, reference::evaluate<double>(inputs), outputs);
    const double floors = report["output"].worst().error.floor_ratio;
    EXPECT_TRUE(floors <= bound.floors)
        << floors << " floors, seed " << inputs.problem.seed << ": " << inputs.problem.to_string();
  }
}

// Where updates cancel, every use of a token's own update has the same rounding. Were it added
// unrounded in chunks that do not forget, each of these states would be beyond its limit.
TEST_P(FusedSm90, EqualKeysCancel) {
  for (const char* options : {"gates=near_one,betas=one", "gates=mid,betas=mixture"})
    expect_all_agree(
        {"gated_delta:heads=1/2,dim=128,seq=300,dtype=bf16,keys=equal," + std::string(options)});
}

INSTANTIATE_TEST_SUITE_P(
    All, FusedSm90,
    testing::Values(&find_implementation(gated_delta_operation(), "cuda/fused_sm90"),
                    &find_implementation(gated_delta_operation(), "cuda/fused_sm90_one_launch"),
                    &find_implementation(gated_delta_operation(), "cuda/fused_sm90_invariant")),
    test_name);

}  // namespace
}  // namespace gdn
