// A case that breaks the contract is refused before any kernel sees it, with one line that names
// the array, the place and what was expected.
#include "interface/case.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "interface/error.h"
#include "interface/gate_encoding_table.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/recurrence_operands.h"

namespace gdn {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Case valid_case(const std::string& text) {
  Case c;
  c.problem = Problem::parse(text);
  const Problem& p = c.problem;
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const std::int64_t tokens = p.total_tokens();
  c.sequence_offsets = p.sequences.offsets();
  if (p.operation == gated_delta_operation()) {
    c["q"].assign(size(tokens * p.num_key_heads * p.key_head_dim), 0.5f);
    c["k"].assign(size(tokens * p.keys_per_token()), 0.5f);
    c["v"].assign(size(tokens * p.values_per_token()), 0.25f);
  } else {
    c["qkv"].assign(size(tokens * p.conv_channels()), 0.5f);
    c["conv_weight"].assign(size(p.conv_channels() * p.conv_width), 0.25f);
    c["conv_state"].assign(size(p.num_pool_rows() * p.conv_channels() * (p.conv_width - 1)), 0.0f);
  }
  if (p.operation != causal_conv1d_operation()) {
    c[gate_name(c.problem)].assign(size(tokens * p.gates_per_token()),
                                   p.gate_encoding == GateEncoding::log_decay ? -0.5f : 0.5f);
    if (entry_of(p.gate_encoding).has_rate_and_bias) {
      c["A_log"].assign(size(p.num_value_heads), 0.0f);
      c["dt_bias"].assign(size(p.gates_per_token()), 0.0f);
    }
    c[beta_name(c.problem)].assign(size(tokens * p.betas_per_token()), 0.5f);
    c["initial_state"].assign(size(p.num_pool_rows() * p.state_row_stride()), 0.0f);
  }
  if (p.slots != SlotMap::identity) {
    for (std::int64_t n = 0; n < p.num_sequences(); ++n) c.slot_index.push_back(n);
  }
  return c;
}

const char* const kDelta = "gated_delta:heads=1/2,dim=4x3,seq=3+0+2,h0=normal,slots=permuted";

// The refusal's message, or "accepted".
std::string refusal(const std::string& problem, const std::function<void(Case&)>& damage) {
  Case c = valid_case(problem);
  damage(c);
  try {
    validate(c);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "accepted";
}

void expect_refused(const std::string& problem, const std::function<void(Case&)>& damage,
                    const std::vector<std::string>& words) {
  const std::string message = refusal(problem, damage);
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos)
        << problem << ": '" << message << "' does not mention '" << word << "'";
  }
}

TEST(CaseValidation, AcceptsValidCasesOfEveryOperationAndEncoding) {
  for (const char* text :
       {kDelta, "gated_delta:gate=decay", "gated_delta:gate=neg_log_decay",
        "gated_delta:gate=logits,beta=logit", "gated_delta:gate=bounded,bound=2,beta=logit2",
        "gated_delta:gate=bounded,decay=channel", "causal_conv1d:dim=4x4,seq=5",
        "gated_delta_layer:dim=4x4,seq=5+0,gate=logits"}) {
    EXPECT_EQ(refusal(text, [](Case&) {}), "accepted") << text;
  }
}

TEST(CaseValidation, LogDecayOfMinusInfinityIsAResetAndAllowed) {
  EXPECT_EQ(refusal(kDelta, [](Case& c) { c[gate_name(c.problem)][1] = -kInfinity; }), "accepted");
}

TEST(CaseValidation, NonMonotoneOffsetsAreRefused) {
  expect_refused(kDelta,
                 [](Case& c) {
                   c.sequence_offsets = {0, 3, 2, 5};
                 },
                 {"sequence_offsets", "monotone", "index 2"});
}

TEST(CaseValidation, OffsetsNotEndingAtTheTokenCountAreRefused) {
  expect_refused(kDelta, [](Case& c) { c.sequence_offsets.back() = 4; },
                 {"sequence_offsets", "ends at 4", "5"});
}

TEST(CaseValidation, WrongNumberOfOffsetsIsRefused) {
  expect_refused(kDelta, [](Case& c) { c.sequence_offsets.pop_back(); }, {"sequence_offsets"});
}

TEST(CaseValidation, DuplicateSlotsAreRefused) {
  expect_refused(kDelta, [](Case& c) { c.slot_index[2] = c.slot_index[0]; },
                 {"slot_index", "used twice", "index 2"});
}

TEST(CaseValidation, SlotsOutOfRangeAreRefused) {
  expect_refused(kDelta, [](Case& c) { c.slot_index[1] = 6; }, {"slot_index", "6", "index 1"});
  expect_refused(kDelta, [](Case& c) { c.slot_index[1] = -2; }, {"slot_index", "-2"});
}

// Sequences 0, 1 and 2 read rows 0, 1 and 2 of nine, and write rows 3, 4 and 5.
void with_output_slots(Case& c) { c.other_indices["output_slot_index"] = {3, 4, 5}; }

TEST(CaseValidation, OutputSlotsMayBeTheSequencesOwnOrNoneAndReadRowsMayBeShared) {
  const std::string problem = std::string(kDelta) + ",output_slots=other";
  EXPECT_EQ(refusal(problem, with_output_slots), "accepted");
  EXPECT_EQ(refusal(problem,
                    [](Case& c) {
                      c.other_indices["output_slot_index"] = {-1, 1, 8};
                    }),
            "accepted");
  EXPECT_EQ(refusal(problem,
                    [](Case& c) {
                      with_output_slots(c);
                      c.slot_index = {0, 0, 0};
                    }),
            "accepted");
}

TEST(CaseValidation, OutputSlotsThatCollideOrLieOutsideAreRefused) {
  const std::string problem = std::string(kDelta) + ",output_slots=other";
  const auto expect = [&](const std::vector<std::int64_t>& slots, const char* words) {
    expect_refused(problem, [&](Case& c) { c.other_indices["output_slot_index"] = slots; },
                   {"output_slot_index", words});
  };
  expect({3, 4, 3}, "slot 3 at index 2 is written by sequence 0 too");
  expect({3, 0, 4}, "slot 0 at index 1 is read by sequence 0");
  expect({3, 4, 9}, "value 9 at index 2, expected -1 or a row of the pool");
  expect({-2, 4, 5}, "value -2 at index 0, expected -1 or a row of the pool");
  expect_refused(problem, [](Case&) {}, {"output_slot_index", "is missing"});
}

TEST(CaseValidation, SeveralPaddingSlotsAreAccepted) {
  EXPECT_EQ(refusal(kDelta, [](Case& c) { c.slot_index = {-1, -1, 0}; }), "accepted");
}

TEST(CaseValidation, PositiveLogDecayIsRefusedInEveryEncoding) {
  expect_refused(kDelta, [](Case& c) { c[gate_name(c.problem)][3] = 0.25f; },
                 {"log_decay", "0.25", "[1, 1]"});
  expect_refused("gated_delta:gate=decay", [](Case& c) { c[gate_name(c.problem)][3] = 1.5f; },
                 {"decay", "1.5", "[3, 0]"});
  expect_refused("gated_delta:gate=neg_log_decay",
                 [](Case& c) { c[gate_name(c.problem)][3] = -0.5f; }, {"neg_log_decay", "[3, 0]"});
}

TEST(CaseValidation, BoundedLogitsThatAreNotFiniteAreRefused) {
  for (const float x : {kInfinity, -kInfinity, kNaN}) {
    expect_refused("gated_delta:gate=bounded", [x](Case& c) { c["bounded_decay_logit"][3] = x; },
                   {"bounded_decay_logit", "[3, 0]"});
  }
}

TEST(CaseValidation, NaNIsRefusedInEveryInput) {
  expect_refused(kDelta, [](Case& c) { c["q"][5] = kNaN; }, {"q:", "NaN", "[1, 0, 1]"});
  expect_refused(kDelta, [](Case& c) { c["k"][5] = kNaN; }, {"k:", "NaN", "[1, 0, 1]"});
  expect_refused(kDelta, [](Case& c) { c["v"][5] = kInfinity; }, {"v:", "infinity", "[0, 1, 2]"});
  expect_refused(kDelta, [](Case& c) { c[gate_name(c.problem)][0] = kNaN; }, {"log_decay"});
  expect_refused(kDelta, [](Case& c) { c[beta_name(c.problem)][2] = kNaN; }, {"beta", "[1, 0]"});
  expect_refused(kDelta, [](Case& c) { c["initial_state"][7] = kNaN; },
                 {"initial_state", "initial_state"});
  expect_refused("causal_conv1d:dim=4x4,seq=5", [](Case& c) { c["qkv"][1] = kNaN; }, {"qkv"});
  expect_refused("causal_conv1d:dim=4x4,seq=5", [](Case& c) { c["conv_state"][1] = kNaN; },
                 {"conv_state"});
}

TEST(CaseValidation, PoolRowsThatAreNotReadMayHoldNaN) {
  EXPECT_EQ(refusal("gated_delta:seq=3", [](Case& c) { c["initial_state"][0] = kNaN; }),
            "accepted");
}

TEST(CaseValidation, BetaOutsideZeroToTwoIsRefused) {
  expect_refused(kDelta, [](Case& c) { c[beta_name(c.problem)][1] = 2.5f; },
                 {"beta", "2.5", "0..2"});
  expect_refused(kDelta, [](Case& c) { c[beta_name(c.problem)][1] = -0.5f; }, {"beta", "0..2"});
}

TEST(CaseValidation, WrongArraySizesAreRefusedWithBothNumbers) {
  expect_refused(kDelta, [](Case& c) { c["q"].pop_back(); }, {"q:", "19", "20"});
  expect_refused(kDelta, [](Case& c) { c["v"].push_back(0); }, {"v:", "31", "30"});
  expect_refused(kDelta, [](Case& c) { c[gate_name(c.problem)].clear(); },
                 {"log_decay", "0", "10"});
  expect_refused(kDelta, [](Case& c) { c["initial_state"].pop_back(); },
                 {"initial_state", "row stride 24"});
  expect_refused("causal_conv1d:dim=4x4,seq=5", [](Case& c) { c["conv_weight"].pop_back(); },
                 {"conv_weight"});
}

TEST(CaseValidation, GateArraysOfAnotherEncodingAreRefused) {
  expect_refused(kDelta, [](Case& c) { c["decay"] = c["log_decay"]; },
                 {"decay", "is not an operand"});
}

TEST(CaseValidation, AMissingArrayIsRefused) {
  expect_refused(kDelta, [](Case& c) { c.arrays.erase("log_decay"); }, {"log_decay"});
  expect_refused("causal_conv1d:dim=4x4,seq=5", [](Case& c) { c.arrays.erase("qkv"); }, {"qkv"});
}

}  // namespace
}  // namespace gdn
