// Every implementation of gated_delta_verify (contract section 1.6): against the float64 reference over
// its options, and what must be equal bit for bit: accepting k tokens and a call of gated_delta on k.
#include "interface/operations/gated_delta_verify.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/run/batches.h"
#include "harness/run/execute.h"
#include "interface/error.h"
#include "interface/operations/gated_delta.h"
#include "interface/phase_group.h"
#include "reference/reference.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

using Counts = std::vector<std::int64_t>;

class GatedDeltaVerify : public ImplementationTest {
 protected:
  /// Head dims, small ones where the implementation does any.
  std::string dims() const {
    const std::string any = "dim=16x24";
    const bool does_any = supported(Problem::parse("gated_delta_verify:dtype=f32," + any));
    return does_any ? any : "dim=64x24";
  }
  static Case draft(const std::string& fields) {
    return generate_case(Problem::parse("gated_delta_verify:" + fields));
  }
  static Case accepting(Case inputs, const Counts& accepted) {
    inputs.other_indices["accepted"] = accepted;
    return inputs;
  }
  static Counts accepted_of(const Case& inputs) { return inputs.other_indices["accepted"]; }
  static Counts all_of(const Case& inputs) { return inputs.problem.sequences.lengths; }
  static Counts none_of(const Case& inputs) {
    return Counts(static_cast<std::size_t>(inputs.problem.num_sequences()), 0);
  }
  bool supported(const Problem& problem) const { return implementation().supports(problem).ok; }
  Outputs run(const Case& inputs) const { return execute(implementation(), inputs, device()); }

  void expect_all_patterns_agree(const std::string& fields) {
    const Case inputs = draft(fields);
    if (!supported(inputs.problem))
      return;  // pads that are no words, which an implementation may refuse
    expect_agrees(inputs);
    expect_agrees(accepting(inputs, all_of(inputs)));
    expect_agrees(accepting(inputs, none_of(inputs)));
  }

  /// One plan, other lengths and slots: each draft goes on from the pool that the commit before it left.
  void expect_follows_lengths_and_slots(const Case& planned) {
    PlannedCase one_plan(implementation(), planned, device());
    Case next = planned;
    Outputs before = one_plan.run();
    for (const auto& [lengths, slots, accepted] :
         {std::tuple<Counts, Counts, Counts>{{2, 9, 4}, {4, 0, 2}, {1, 9, 0}},
          {{0, 1, 14}, {0, -1, 5}, {0, 1, 7}},
          {{5, 5, 5}, {1, 2, 3}, {5, 0, 2}}}) {
      next["initial_state"] = before["final_state"];
      next.problem.sequences.lengths = lengths;
      next.sequence_offsets = next.problem.sequences.offsets();
      next.slot_index = slots;
      next.other_indices["accepted"] = accepted;
      one_plan.refill(next);
      before = one_plan.run();
      expect_outputs_agree(next, before);
      const Outputs own_plan = run(next);
      const Outputs again = one_plan.run_in_phases(next);
      EXPECT_TRUE(same_bits(own_plan["output"], again["output"]));
      EXPECT_TRUE(same_bits(own_plan["final_state"], again["final_state"]));
      EXPECT_TRUE(same_bits(own_plan["final_state"], before["final_state"]));
    }
  }
};

TEST_P(GatedDeltaVerify, EveryEncodingAndDtype) {
  for (const char* gate : {"log_decay", "decay", "neg_log_decay", "logits"}) {
    for (const char* beta : {"beta", "logit"}) {
      for (const char* dtype : {"f32", "bf16", "f16"}) {
        expect_all_patterns_agree("heads=2/4," + dims() +
                                  ",seq=4+0+7+1+3,h0=normal,gates=mid,gate=" + gate +
                                  ",beta=" + beta + ",dtype=" + dtype);
      }
    }
  }
}

TEST_P(GatedDeltaVerify, LayoutsStateTypesAndPools) {
  for (const char* layout : {"kv", "vk"}) {
    for (const char* state : {"f32", "bf16", "f16"}) {
      for (const char* pool :
           {"", ",slots=permuted", ",slots=padding", ",slots=padding,pool_pad=12",
            ",slots=padding,pool_pad=16", ",slots=permuted,pool_rows=5",
            ",slots=padding,pool_rows=40", ",pool_rows=9"}) {
        expect_all_patterns_agree("heads=1/3," + dims() +
                                  ",seq=4+9+3+0+5,dtype=bf16,h0=normal,layout=" + layout +
                                  ",state=" + state + pool);
      }
    }
  }
}

TEST_P(GatedDeltaVerify, InitialStatesGatesAndVariants) {
  for (const char* more :
       {"h0=absent", "h0=large", "h0=normal,ht=0", "h0=normal,gates=reset", "h0=normal,gates=none",
        "h0=normal,norm=1,keys=unnormalised", "h0=normal,norm=1,magnitudes=edges",
        "h0=normal,scale=0.25,out=f32", "h0=normal,betas=wide", "h0=normal,update=additive",
        "h0=normal,decay=channel", "h0=normal,gate=bounded,gates=bounded,bound=2,beta=logit2",
        "h0=normal,gate=bounded,gates=bounded,decay=channel", "h0=normal,steps=2",
        "h0=normal,steps=3,decay=channel,norm=1,gate=logits",
        "h0=absent,slots=padding,steps=2,update=additive"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      expect_all_patterns_agree("heads=2/2," + dims() + ",seq=6+1+0+16+3,dtype=" + dtype + "," +
                                more);
    }
  }
}

TEST_P(GatedDeltaVerify, EmptyBatches) {
  for (const char* seq : {"0", "0+0", "0+3+0", "1x1"}) {
    expect_all_patterns_agree("heads=1/2," + dims() + ",dtype=f32,h0=normal,seq=" + seq);
  }
}

/// The same inputs as a call of an operation, gated_delta or this one, on the first tokens of every sequence.
Case cut_to(const Case& draft, const Counts& tokens, const std::string& operation = "gated_delta") {
  const Problem& p = draft.problem;
  Case cut;
  std::string text = p.to_string();
  text.replace(0, std::string("gated_delta_verify").size(), operation);
  cut.problem = Problem::parse(text);
  cut.problem.sequences.lengths = tokens;
  cut.sequence_offsets = cut.problem.sequences.offsets();
  cut.slot_index = draft.slot_index;
  for (const Operand& operand : p.operation->operands) {
    if (operand.is_index() || operand.role == Role::output || !draft.arrays.has(operand.name)) {
      continue;
    }
    const std::vector<float>& values = draft[operand.name];
    if (cut_of(operand, p) != Cut::tokens || !is_present(operand, p)) {
      cut[operand.name] = values;
      continue;
    }
    const std::int64_t width = elements_per_token(operand, p);
    std::vector<float>& taken = cut[operand.name];
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
      const auto first = values.begin() + draft.first_token(n) * width;
      taken.insert(taken.end(), first, first + tokens[static_cast<std::size_t>(n)] * width);
    }
  }
  return cut;
}

// The promise of contract section 1.6, of the implementation of gated_delta whose arithmetic it is.
TEST_P(GatedDeltaVerify, AcceptingKTokensIsACallOnKTokensBitForBit) {
  const std::map<std::string, std::string> same_arithmetic = {{"cpu/records", "cpu/naive"},
                                                              {"cpu/states", "cpu/naive"},
                                                              {"cuda/records", "cuda/decode"},
                                                              {"cuda/states", "cuda/decode"},
                                                              {"hip/records", "hip/recurrent"}};
  const auto name = same_arithmetic.find(implementation().description().name);
  if (name == same_arithmetic.end()) GTEST_SKIP() << "declares no arithmetic it shares";
  const Implementation& whole = find_implementation(gated_delta_operation(), name->second);
  std::vector<std::string> calls;
  for (const char* more :
       {"h0=normal,dtype=f32", "h0=normal,dtype=bf16,state=bf16",
        "h0=normal,dtype=f16,layout=vk,slots=padding,pool_pad=8",
        "h0=normal,dtype=bf16,steps=3,decay=channel,norm=1",
        "h0=normal,dtype=f32,update=additive,slots=permuted",
        "h0=normal,dtype=f32,gates=reset,state=f16", "dtype=bf16,gate=logits,beta=logit,h0=absent",
        "h0=normal,dtype=f32,decay=channel,gates=mid"}) {
    calls.push_back(dims() + ",seq=5+0+16+1+8+3," + more);
  }
  // For other head dims there may be other kernels.
  for (const char* other : {"dim=20x9", "dim=128x72", "dim=200x24"}) {
    calls.push_back(std::string(other) + ",seq=3+0+4,h0=normal,dtype=f16,norm=1,gates=mid");
  }
  for (const std::string& call : calls) {
    const Case inputs = draft("heads=2/4," + call);
    SCOPED_TRACE(inputs.problem.to_string());
    // That form may be without the variants.
    if (!supported(inputs.problem) || !whole.supports(cut_to(inputs, all_of(inputs)).problem)) {
      continue;
    }
    const Outputs all = execute(whole, cut_to(inputs, all_of(inputs)), device());
    for (std::int64_t k = 0; k <= inputs.problem.sequences.longest(); ++k) {
      Counts accepted = all_of(inputs);
      for (std::int64_t& count : accepted) count = std::min(count, k);
      const Outputs outputs = run(accepting(inputs, accepted));
      EXPECT_TRUE(same_bits(outputs["output"], all["output"])) << k << " accepted";
      const Outputs first = execute(whole, cut_to(inputs, accepted), device());
      EXPECT_TRUE(same_bits(outputs["final_state"], first["final_state"])) << k << " accepted";
    }
  }
}

/// The values of an output of the first tokens of every sequence.
std::vector<float> first_tokens(const Case& draft, const std::vector<float>& output,
                                const Counts& tokens) {
  const std::int64_t width = draft.problem.num_value_heads * draft.problem.value_head_dim;
  std::vector<float> taken;
  for (std::int64_t n = 0; n < draft.problem.num_sequences(); ++n) {
    const auto first = output.begin() + draft.first_token(n) * width;
    taken.insert(taken.end(), first, first + tokens[static_cast<std::size_t>(n)] * width);
  }
  return taken;
}

// What is not accepted has never been: neither outputs before it nor the state know of it, whatever the
// implementation makes of several tokens at a time.
TEST_P(GatedDeltaVerify, TokensBehindTheAcceptedOnesLeaveNoTrace) {
  const std::string calls[] = {
      dims() + ",seq=5+0+16+1+8+3,h0=normal,dtype=bf16",
      "dim=64,seq=16+3+9,h0=normal,dtype=bf16,state=bf16,layout=vk,norm=1,gate=logits",
      "dim=128x72,seq=7+4,h0=normal,dtype=bf16,state=bf16,norm=1,slots=padding,pool_pad=16",
      "dim=96x24,seq=8+2,h0=normal,dtype=bf16,state=f16,layout=vk,gates=reset",
  };
  for (const std::string& call : calls) {
    const Case inputs = draft("heads=2/4," + call);
    SCOPED_TRACE(inputs.problem.to_string());
    if (!supported(inputs.problem)) continue;
    for (std::int64_t k = 0; k <= inputs.problem.sequences.longest(); ++k) {
      Counts accepted = all_of(inputs);
      for (std::int64_t& count : accepted) count = std::min(count, k);
      const Outputs outputs = run(accepting(inputs, accepted));
      const Outputs alone =
          run(accepting(cut_to(inputs, accepted, "gated_delta_verify"), accepted));
      EXPECT_TRUE(same_bits(outputs["final_state"], alone["final_state"])) << k << " accepted";
      EXPECT_TRUE(same_bits(first_tokens(inputs, outputs["output"], accepted), alone["output"]))
          << k << " accepted";
    }
  }
}

// Whatever an implementation multiplies a float32 state as: what it adds to the state has the precision of
// float32 numbers that are kept in two parts of 16 bits at least, not of one.
TEST_P(GatedDeltaVerify, Float32StatesAreNotCutToTheTokensPrecision) {
  for (const char* layout : {"kv", "vk"}) {
    const Case inputs = draft(
        "heads=1/2,dim=64,seq=4+16+3,dtype=bf16,h0=normal,accepted=all,gates=weak,"
        "layout=" +
        std::string(layout));
    SCOPED_TRACE(inputs.problem.to_string());
    if (!supported(inputs.problem)) continue;
    const Outputs outputs = run(inputs);
    const Arrays<double> exact = reference::evaluate<double>(inputs);
    double error = 0;
    double norm = 0;
    for (std::size_t i = 0; i < exact["final_state"].size(); ++i) {
      error += std::pow(outputs["final_state"][i] - exact["final_state"][i], 2);
      norm += std::pow(exact["final_state"][i], 2);
    }
    EXPECT_TRUE(std::sqrt(error / norm) <= 1e-5) << std::sqrt(error / norm);
  }
}

// One plan, its phases apart: which tokens are accepted is known only after they are verified, and the
// pool is written by the commit alone (PlannedCase::run_in_phases sees to both).
TEST_P(GatedDeltaVerify, PhasesOneByOneAreTheWholeCallWhateverIsAccepted) {
  const Case inputs =
      draft("heads=2/4," + dims() + ",seq=4+9+2+0+6,dtype=bf16,h0=normal,slots=padding,pool_pad=8");
  PlannedCase one_plan(implementation(), inputs, device());
  for (const Counts& accepted :
       {accepted_of(inputs), all_of(inputs), none_of(inputs), Counts{1, 8, 1, 0, 5}}) {
    const Case accepting_these = accepting(inputs, accepted);
    const Outputs at_once = run(accepting_these);
    for (const HiddenIndices indices : {HiddenIndices::below, HiddenIndices::above}) {
      const Outputs committed = one_plan.run_in_phases(accepting_these, indices);
      EXPECT_EQ(first_difference(at_once, committed), "") << inputs.problem.to_string();
    }
  }
}

// Layers of a model: a plan each, of lengths, slots and rows of their own, whose phases are enqueued
// together; and again, in a graph where there are any, when other tokens are accepted.
TEST_P(GatedDeltaVerify, SeveralPlansTogetherHaveTheBitsOfEachAlone) {
  const bool one_launch = implementation().description().backend == "cuda";
  for (const char* options :
       {"dtype=f32", "dtype=f32,layout=vk,slots=padding", "dtype=bf16,state=bf16,slots=padding",
        "dtype=bf16,state=bf16,layout=vk,norm=1,gate=logits", "dtype=f16,state=f16,h0=absent",
        "dtype=f32,layout=vk,steps=2,decay=channel,slots=permuted", "dtype=bf16,ht=0"}) {
    std::vector<Case> layers;
    for (const char* own : {"seq=4+9+2+0+6,seed=1", "seq=0+6+9+4+2,seed=2,pool_pad=48",
                            "seq=5+1+1+13+1,seed=3,pool_pad=16", "seq=2+2+2+2+13,seed=4"}) {
      const std::string state =
          std::string(options).find("h0=") == std::string::npos ? ",h0=normal" : "";
      layers.push_back(draft("heads=2/4," + dims() + "," + options + state + "," + own));
    }
    SCOPED_TRACE(layers[0].problem.to_string());
    if (!supported(layers[0].problem) || !supported(layers[1].problem)) continue;
    std::vector<std::unique_ptr<PlannedCase>> plans;
    std::vector<PlannedCase*> all;
    for (const Case& layer : layers) {
      plans.push_back(std::make_unique<PlannedCase>(implementation(), layer, device()));
      all.push_back(plans.back().get());
    }
    PlannedTogether together(implementation(), all);
    const int commit = static_cast<int>(DraftPhase::commit);
    EXPECT_EQ(together.info(commit).launches, one_launch && layers[0].problem.final_state ? 1 : 0);
    for (const char* accepting_these : {"as drawn", "all", "none of some"}) {
      if (accepting_these != std::string("as drawn")) {
        for (std::size_t i = 0; i < layers.size(); ++i) {
          const bool none = accepting_these != std::string("all") && i % 2 == 1;
          layers[i] = accepting(layers[i], none ? none_of(layers[i]) : all_of(layers[i]));
          all[i]->refill(layers[i]);
        }
      }
      const std::vector<Outputs> outputs = together.run();
      for (std::size_t i = 0; i < layers.size(); ++i) {
        EXPECT_EQ(first_difference(run(layers[i]), outputs[i]), "")
            << "layer " << i << ", accepted: " << accepting_these;
      }
      together.capture();  // from now on a graph
    }
  }
}

std::string refusal(const Implementation& implementation, const std::vector<PlannedProblem>& plans,
                    int phase, Device& device) {
  try {
    group_phase(implementation, plans, phase, device);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PhaseGroups, RefuseWhatCannotBeEnqueuedTogether) {
  const auto device = open_device("cpu");
  const Implementation& records =
      find_implementation(gated_delta_verify_operation(), "cpu/records");
  std::vector<Case> cases;
  for (const char* problem :
       {"heads=1/2,dim=16x24,seq=4+3,dtype=f32", "heads=2/2,dim=16x24,seq=4+3,dtype=f32",
        "heads=1/2,dim=16x24,seq=4+3,dtype=f32,layout=vk",
        "heads=1/2,dim=16x24,seq=4+2+1,dtype=f32", "heads=1/2,dim=16x24,seq=4+4,dtype=f32",
        "heads=1/2,dim=16x24,seq=2+5,dtype=f32,pool_pad=4,pool_rows=9,seed=3,accepted=all"}) {
    cases.push_back(generate_case(Problem::parse(std::string("gated_delta_verify:") + problem)));
  }
  std::vector<std::unique_ptr<DeviceCase>> there;
  std::vector<std::unique_ptr<Plan>> plans;
  std::vector<PlannedProblem> all;
  for (const Case& inputs : cases) {
    there.push_back(std::make_unique<DeviceCase>(inputs, *device));
    plans.push_back(records.plan(inputs.problem, there.back()->arguments(), *device));
    all.push_back({&inputs.problem, plans.back().get()});
  }
  const auto refused = [&](const std::vector<PlannedProblem>& given, int phase) {
    return refusal(records, given, phase, *device);
  };
  EXPECT_EQ(refused({all[0], all[5]}, 1), "");
  EXPECT_EQ(refused({all[0], all[1]}, 1),
            "group: plan 1 has heads=2/2, expected heads=1/2 as plan 0");
  EXPECT_EQ(refused({all[0], all[5], all[2]}, 1),
            "group: plan 2 has layout=vk, expected layout=kv as plan 0");
  EXPECT_EQ(refused({all[0], all[3]}, 1), "group: plan 1 has 3 sequences, expected 2 as plan 0");
  EXPECT_EQ(refused({all[0], all[4]}, 1), "group: plan 1 has 8 tokens, expected 7 as plan 0");
  EXPECT_EQ(refused({all[5], all[0], all[5]}, 1), "group: plan 2 is plan 0, expected each once");
  EXPECT_EQ(refused({all[0], {}}, 1), "group: plan 1 is null");
  EXPECT_EQ(refused({}, 1), "group: no plans, expected one or more");
  EXPECT_EQ(refused({all[0]}, 2), "group: phase 2, expected 0..1");
  EXPECT_EQ(refused({all[0]}, -1), "group: phase -1, expected 0..1");
  EXPECT_EQ(
      refusal(find_implementation(gated_delta_operation(), "cpu/naive"), {all[0]}, 0, *device),
      "group: gated_delta has no phases");
}

// One plan serves other lengths and slots, as a captured graph must: each draft goes on from the pool
// that the commit before it left. Drafts that are longer than the longest planned one are among them.
TEST_P(GatedDeltaVerify, APlanFollowsLengthsAndSlotsFromDraftToDraft) {
  for (const char* dtype : {"f32", "bf16"}) {
    const Case planned =
        draft("heads=1/2," + dims() + ",seq=8+4+3,h0=normal,slots=permuted,dtype=" + dtype);
    if (supported(planned.problem)) expect_follows_lengths_and_slots(planned);
  }
}

// However the tokens are shared out between the sequences.
TEST_P(GatedDeltaVerify, WhatPlansHoldIsBoundedByThePlannedTokens) {
  const auto bytes = [&](const std::string& seq) {
    return implementation().workspace_bytes(Problem::parse(
        "gated_delta_verify:heads=1/2," + dims() + ",dtype=bf16,h0=normal,seq=" + seq));
  };
  EXPECT_EQ(bytes("64x4"), bytes("16x16+48x0"));
  EXPECT_GT(bytes("64x8"), bytes("64x4"));
}

GDN_INSTANTIATE_FOR(GatedDeltaVerify, gated_delta_verify_operation());

}  // namespace
}  // namespace gdn
