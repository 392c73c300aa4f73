// Every implementation of gated_delta_ring (contract section 1.11): against the float64 reference over its options,
// and what must be so whatever the arithmetic: places that hold no record are not read, tokens do not know of those
// behind them, and cycle after cycle stays with gated_delta on the tokens that stayed.
#include "interface/operations/gated_delta_ring.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "harness/operations/generate_case.h"
#include "harness/run/execute.h"
#include "reference/reference.h"
#include "tests/implementation_fixture.h"

namespace gdn {
namespace {

using Counts = std::vector<std::int64_t>;

class GatedDeltaRing : public ImplementationTest {
 protected:
  /// Head dims, small ones where the implementation does any.
  std::string dims() const {
    const std::string any = "dim=16x24";
    const bool does_any = supported(Problem::parse("gated_delta_ring:seq=1,dtype=f32," + any));
    return does_any ? any : "dim=64x24";
  }
  static Case drawn(const std::string& fields) {
    return generate_case(Problem::parse("gated_delta_ring:" + fields));
  }
  bool supported(const Problem& problem) const { return implementation().supports(problem).ok; }
  Outputs run(const Case& inputs) const { return execute(implementation(), inputs, device()); }

  void expect_fields_agree(const std::string& fields) {
    const Case inputs = drawn(fields);
    if (supported(inputs.problem)) expect_agrees(inputs);
  }
};

std::int64_t& index_of(Case& c, const char* operand, std::int64_t sequence) {
  return c.other_indices[operand][static_cast<std::size_t>(sequence)];
}

/// The first tokens of a call on one sequence.
Case first_tokens_of(const Case& inputs, std::int64_t count) {
  const Problem& p = inputs.problem;
  Case first = inputs;
  first.problem.sequences.lengths = {count};
  first.sequence_offsets = {0, count};
  for (const Operand& operand : p.operation->operands) {
    if (operand.role != Role::input || operand.is_index() || !is_present(operand, p)) continue;
    if (cut_of(operand, p) != Cut::tokens) continue;
    first[operand.name].resize(static_cast<std::size_t>(count * elements_per_token(operand, p)));
  }
  return first;
}

/// What the next call of the sequences takes, whose rings and states are those that this one left: `stay` of the
/// tokens of each were kept.
Case next_call(const Case& called, const Outputs& outputs, const Counts& stay) {
  Case next = called;
  next["initial_state"] = outputs["final_state"];
  for (const char* name : {"ring_key", "ring_update", "ring_decay"}) next[name] = outputs[name];
  const std::int64_t ring = ring_places(called.problem);
  for (std::int64_t n = 0; n < called.problem.num_sequences(); ++n) {
    std::int64_t& first = index_of(next, "ring_first", n);
    std::int64_t& length = index_of(next, "ring_length", n);
    if (ring_folds(called.problem, index_of(next, "ring_fold", n)) && called.length(n) > 0) {
      first = (first + length) % ring;
      length = 0;
    }
    length += stay[static_cast<std::size_t>(n)];
    index_of(next, "ring_fold", n) = length + 2 * called.length(n) > ring ? 1 : 0;
  }
  return next;
}

TEST_P(GatedDeltaRing, EveryEncodingAndDtype) {
  for (const char* gate : {"log_decay", "decay", "neg_log_decay", "logits"}) {
    for (const char* beta : {"beta", "logit"}) {
      for (const char* dtype : {"f32", "bf16", "f16"}) {
        expect_fields_agree("heads=2/4," + dims() + ",seq=4+0+7+1+3,h0=normal,gates=mid,gate=" +
                            gate + ",beta=" + beta + ",dtype=" + dtype);
      }
    }
  }
}

TEST_P(GatedDeltaRing, LayoutsStateTypesAndPools) {
  for (const char* layout : {"kv", "vk"}) {
    for (const char* state : {"f32", "bf16", "f16"}) {
      for (const char* pool :
           {"", ",slots=permuted", ",slots=padding", ",slots=padding,pool_pad=16",
            ",slots=permuted,pool_rows=5", ",slots=padding,pool_rows=40", ",pool_rows=9"}) {
        expect_fields_agree("heads=1/3," + dims() + ",seq=4+9+3+0+5,dtype=bf16,h0=normal,layout=" +
                            layout + ",state=" + state + pool);
      }
    }
  }
}

TEST_P(GatedDeltaRing, RingsOfAnySizeAndFilling) {
  for (const char* fill : {"mixture", "none", "all", "cycle"}) {
    for (const char* ring : {"16", "17", "32", "40"}) {
      for (const char* layout : {"kv", "vk"}) {
        expect_fields_agree("heads=1/2,dim=128,seq=4+16+1+9+2+7,dtype=bf16,h0=normal,ring=" +
                            std::string(ring) + ",ring_fill=" + fill + ",layout=" + layout);
      }
    }
    expect_fields_agree("heads=2/2," + dims() +
                        ",seq=1+1+1+1,dtype=f32,h0=normal,ring=1,ring_fill=" + fill);
  }
}

TEST_P(GatedDeltaRing, InitialStatesAndGates) {
  for (const char* more :
       {"h0=absent", "h0=large", "h0=normal,gates=reset", "h0=normal,gates=none",
        "h0=normal,norm=1,keys=unnormalised", "h0=normal,norm=1,magnitudes=edges",
        "h0=normal,scale=0.25,out=f32", "h0=normal,ht=0", "h0=normal,betas=wide",
        "h0=normal,gate=bounded,gates=bounded,bound=2,beta=logit2", "h0=absent,slots=padding",
        "h0=absent,ring_fill=none"}) {  // not told to fold
    for (const char* dtype : {"f32", "bf16"}) {
      expect_fields_agree("heads=2/2," + dims() + ",seq=6+1+0+16+3,dtype=" + dtype + "," + more);
    }
  }
}

TEST_P(GatedDeltaRing, EveryHeadDim) {
  for (const char* dim : {"64", "96x80", "128", "192x136", "256x72"}) {
    for (const char* layout : {"kv", "vk"}) {
      for (const char* state : {"f32", "bf16"}) {
        expect_fields_agree("heads=1/2,seq=4+9+1,dtype=bf16,h0=normal,dim=" + std::string(dim) +
                            ",layout=" + layout + ",state=" + state);
      }
    }
  }
}

TEST_P(GatedDeltaRing, EmptyBatches) {
  for (const char* seq : {"0", "0+0", "0+3+0", "1x1"}) {
    expect_fields_agree("heads=1/2," + dims() + ",dtype=f32,h0=normal,seq=" + seq);
  }
}

// A ring may be of memory that nobody has written yet.
TEST_P(GatedDeltaRing, PlacesThatHoldNoRecordAreNotRead) {
  for (const char* options : {"dtype=f32", "dtype=bf16,state=bf16,layout=vk", "dtype=bf16"}) {
    const Case inputs = drawn("heads=2/4,dim=64x24,seq=4+1+7+3,h0=normal,slots=permuted,ring=24," +
                              std::string(options));
    SCOPED_TRACE(inputs.problem.to_string());
    if (!supported(inputs.problem)) continue;
    const Problem& p = inputs.problem;
    Case poisoned = inputs;
    for (const char* name : {"ring_key", "ring_update", "ring_decay"}) {
      const Operand& operand = p.operation->at(name);
      const std::int64_t record = row_elements(operand, p) / ring_places(p);
      for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
        for (std::int64_t i = index_of(poisoned, "ring_length", n); i < ring_places(p); ++i) {
          const std::int64_t place = (index_of(poisoned, "ring_first", n) + i) % ring_places(p);
          std::fill_n(
              poisoned[name].begin() + inputs.slot(n) * row_stride(operand, p) + place * record,
              record, std::numeric_limits<float>::quiet_NaN());
        }
      }
    }
    const Outputs expected = run(inputs);
    PlannedCase planned(implementation(), inputs, device());
    planned.refill(poisoned);
    const Outputs outputs = planned.run();
    EXPECT_TRUE(same_bits(expected["output"], outputs["output"]));
    EXPECT_TRUE(same_bits(expected["final_state"], outputs["final_state"]));
    // What the call writes of the rings is the same; the places that it leaves are as poisoned as before.
    for (const char* name : {"ring_key", "ring_update", "ring_decay"}) {
      for (std::size_t i = 0; i < outputs[name].size(); ++i) {
        const bool left = std::isnan(outputs[name][i]) && std::isnan(poisoned[name][i]);
        if (left || outputs[name][i] == expected[name][i]) continue;
        ADD_FAILURE() << name << " at " << i << ": " << outputs[name][i] << ", expected "
                      << expected[name][i];
        break;
      }
    }
  }
}

// Which tokens stay is known only later: their outputs and records are those of a call without the others.
TEST_P(GatedDeltaRing, TokensDoNotKnowOfThoseBehindThem) {
  for (const char* options :
       {"dtype=f32", "dtype=bf16,state=bf16,layout=vk,norm=1", "dtype=bf16,gate=logits"}) {
    const Case inputs =
        drawn("heads=2/4,dim=64x24,seq=7,h0=normal,ring=24," + std::string(options));
    SCOPED_TRACE(inputs.problem.to_string());
    if (!supported(inputs.problem)) continue;
    const Problem& p = inputs.problem;
    const Outputs all = run(inputs);
    for (std::int64_t count = 1; count < 7; ++count) {
      const Case first = first_tokens_of(inputs, count);
      const Outputs outputs = run(first);
      const std::int64_t per_token = p.num_value_heads * p.value_head_dim;
      EXPECT_TRUE(same_bits(outputs["output"], token_range(all["output"], per_token, 0, count)))
          << count << " tokens";
      for (const char* name : {"ring_key", "ring_update", "ring_decay"}) {
        const Operand& operand = p.operation->at(name);
        const std::int64_t record = row_elements(operand, p) / ring_places(p);
        for (std::int64_t t = 0; t < count; ++t) {
          Case copy = inputs;
          const std::int64_t place =
              (index_of(copy, "ring_first", 0) + index_of(copy, "ring_length", 0) + t) %
              ring_places(p);
          EXPECT_TRUE(same_bits(token_range(outputs[name], record, place, place + 1),
                                token_range(all[name], record, place, place + 1)))
              << name << " of token " << t << " of " << count;
        }
      }
    }
  }
}

// One plan, as a captured graph is one: cycle after cycle, with as many tokens staying as a model accepts.
TEST_P(GatedDeltaRing, CyclesStayWithGatedDeltaOnTheTokensThatStay) {
  for (const char* options :
       {"dtype=f32", "dtype=bf16,state=bf16,layout=vk,norm=1,keys=unnormalised",
        "dtype=bf16,gate=logits,layout=vk", "dtype=f16,state=f16"}) {
    Case next = drawn("heads=1/2,dim=64x24,seq=4+3+4,h0=normal,slots=permuted,ring_fill=none," +
                      std::string(options));
    SCOPED_TRACE(next.problem.to_string());
    if (!supported(next.problem)) continue;
    PlannedCase planned(implementation(), next, device());
    for (int step = 0; step < 9; ++step) {
      planned.refill(next);
      const Outputs outputs = planned.run();
      expect_outputs_agree(next, outputs);
      if (HasFailure()) return;
      const Counts stay = {step % 5, (step + 1) % 4, 4};
      next = next_call(next, outputs, stay);
    }
  }
}

// A step and its longest drafts are planned for; the lengths, slots and rings of a call are what its arrays say.
TEST_P(GatedDeltaRing, APlanFollowsLengthsSlotsAndRings) {
  for (const char* dtype : {"f32", "bf16"}) {
    const Case planned_for =
        drawn("heads=1/2,dim=64x24,seq=8+4+3,h0=normal,slots=permuted,ring=20,dtype=" +
              std::string(dtype));
    if (!supported(planned_for.problem)) continue;
    PlannedCase one_plan(implementation(), planned_for, device());
    Case next = planned_for;
    for (const auto& [lengths, slots, rings] :
         {std::tuple<Counts, Counts, Counts>{{2, 9, 4}, {4, 0, 2}, {18, 11, 0}},
          {{0, 1, 14}, {0, -1, 5}, {0, 1, 6}},
          {{5, 5, 5}, {1, 2, 3}, {15, 0, 7}}}) {
      next.problem.sequences.lengths = lengths;
      next.sequence_offsets = next.problem.sequences.offsets();
      next.slot_index = slots;
      next.other_indices["ring_length"] = rings;
      next.other_indices["ring_first"] = {rings[0], 0, 19};
      one_plan.refill(next);
      expect_outputs_agree(next, one_plan.run());
    }
  }
}

GDN_INSTANTIATE_FOR(GatedDeltaRing, gated_delta_ring_operation());

}  // namespace
}  // namespace gdn
