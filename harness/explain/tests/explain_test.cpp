// Error anatomy: each planted fault is explained by the place it was planted in, right outputs by
// nothing, and the tensors it saves are the ones it judged.
#include "harness/explain/explain.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/explain/untold_forms.h"
#include "harness/files/hdf5_group.h"
#include "harness/operations/generate_case.h"
#include "harness/tests/planted_faults/faulty_implementation.h"
#include "harness/tests/planted_faults/faulty_norm.h"
#include "harness/tests/planted_faults/hazard_table.h"
#include "harness/tests/temporary_folder.h"
#include "interface/device.h"
#include "interface/error.h"

namespace gdn::testing {
namespace {

// Four chunks of 16 and a tail of 9, and three whole chunks; grouped heads; decays in 0.8..1.
const char* const kWithState =
    "gated_delta:heads=2/4,dim=24x24,seq=1x73+1x48,h0=normal,gates=mid,seed=7";
const char* const kWithoutState = "gated_delta:heads=2/4,dim=24x24,seq=1x73+1x48,gates=mid,seed=7";

Explanation explain_fault(Fault fault, const std::string& problem) {
  const auto device = open_device("cpu");
  const Case inputs = generate_case(Problem::parse(problem));
  const CheckedReference reference(inputs);
  return explain(reference, *make_faulty(fault), *device);
}

// data/hazards.tsv: every planted fault by the place it was planted in.
class ExplainedHazard : public ::testing::TestWithParam<Hazard> {};

TEST_P(ExplainedHazard, IsNamedByItsPlaceAndItsTwinByNothing) {
  const Hazard& hazard = GetParam();
  const Fault fault = fault_named(hazard.fault);
  if (hazard.explained_as == "stopped") {
    EXPECT_THROW(explain_fault(fault, hazard.problem), Error) << hazard.problem;
  } else {
    const Explanation explanation = explain_fault(fault, hazard.problem);
    if (hazard.explained_as == "-") {
      EXPECT_TRUE(explanation.passed()) << hazard.problem << ": " << explanation.anatomy.violation;
    } else {
      ASSERT_FALSE(explanation.patterns.empty()) << hazard.problem;
      EXPECT_EQ(explanation.patterns.front().place, hazard.explained_as)
          << hazard.problem << ": " << explanation.patterns.front().text;
      EXPECT_FALSE(explanation.patterns.front().evidence.empty());
    }
  }
  const Explanation twin = explain_fault(twin_of(fault), hazard.problem);
  EXPECT_TRUE(twin.passed()) << hazard.problem << ": " << twin.anatomy.violation;
  EXPECT_TRUE(twin.patterns.empty());
}

INSTANTIATE_TEST_SUITE_P(Hazards, ExplainedHazard, ::testing::ValuesIn(planted_hazards()),
                         [](const auto& parameter) { return parameter.param.test_name(); });

// Faults whose place must be found whether or not a state comes in.
struct Expected {
  Fault fault;
  const char* place;
};

class PlantedFault : public ::testing::TestWithParam<Expected> {};

TEST_P(PlantedFault, IsNamedWithAndWithoutAnInitialState) {
  for (const char* problem : {kWithState, kWithoutState}) {
    const Explanation explanation = explain_fault(GetParam().fault, problem);
    ASSERT_FALSE(explanation.passed()) << problem;
    ASSERT_FALSE(explanation.patterns.empty()) << problem << ": " << explanation.anatomy.violation;
    EXPECT_EQ(explanation.patterns.front().place, GetParam().place)
        << problem << ": " << explanation.patterns.front().text;
  }
}

const Expected kFaults[] = {
    {Fault::wrong_w, "state pass"},
    {Fault::inverted_decay_ratio, "intra-chunk"},
    {Fault::tiled_head_map, "head map"},
    {Fault::state_written_transposed, "state layout"},
    {Fault::old_state_readout, "readout"},
    {Fault::no_delta_term, "delta term"},
    {Fault::unwritten_element, "unwritten"},
    {Fault::all_nan, "not finite"},
    {Fault::dropped_tail_chunk, "tail chunk"},
    {Fault::decay_after_update, "decay order"},
    {Fault::state_rounded_per_token, "precision"},
};

INSTANTIATE_TEST_SUITE_P(Faults, PlantedFault, ::testing::ValuesIn(kFaults),
                         [](const auto& parameter) { return name_of(parameter.param.fault); });

Outputs narrowed(const Arrays<double>& wide) {
  Outputs outputs;
  for (const auto& [name, values] : wide) outputs[name].assign(values.begin(), values.end());
  return outputs;
}

// Outputs of the reference, changed by hand: the anatomy must name exactly what was changed.
class Changed : public ::testing::Test {
 protected:
  Changed()
      : inputs_(generate_case(Problem::parse(kWithState))),
        reference_(inputs_),
        outputs_(narrowed(reference_.wide())) {}
  // Output element of sequence 1 (its first token is 73).
  float& output(std::int64_t t, std::int64_t h, std::int64_t j) {
    return outputs_["output"][static_cast<std::size_t>(((73 + t) * 4 + h) * 24 + j)];
  }
  Explanation explained(std::int64_t chunk = 16) { return explain(reference_, outputs_, chunk); }

  Case inputs_;
  CheckedReference reference_;
  Outputs outputs_;
};

TEST_F(Changed, NothingIsWrongBeforeTheChange) {
  const Explanation explanation = explained();
  EXPECT_TRUE(explanation.passed()) << explanation.anatomy.violation;
}

TEST_F(Changed, OneElementIsLocatedByPairTokenChunkAndColumn) {
  output(35, 2, 5) += 1;
  const Anatomy anatomy = explained().anatomy;
  ASSERT_EQ(anatomy.wrong.size(), 1u);
  const PairAnatomy& pair = anatomy.wrong.front();
  EXPECT_EQ(pair.output.where, (BatchPart{1, 2}));
  EXPECT_EQ(pair.tokens.members, (std::vector<std::int64_t>{35}));
  EXPECT_EQ(pair.output_columns.members, (std::vector<std::int64_t>{5}));
  EXPECT_EQ(pair.tokens.total, 48);
  ASSERT_EQ(pair.chunk_errors.size(), 3u);
  const double limit = reference::limit_of(anatomy.report.limits, "output").relative_l2;
  EXPECT_LT(pair.chunk_errors[0], limit);
  EXPECT_LT(pair.chunk_errors[1], limit);
  EXPECT_GT(pair.chunk_errors[2], limit);
  EXPECT_FALSE(pair.state_wrong());
  EXPECT_EQ(anatomy.sequences.to_string(), "1 (1 of 2)");
  EXPECT_EQ(anatomy.heads.to_string(), "2 (1 of 4)");
}

TEST_F(Changed, TheFurthestElementIsToldAsAnIndexIntoItsArray) {
  output(35, 2, 5) += 1;
  output(36, 2, 6) += 2;
  const Explanation explanation = explained();
  ASSERT_EQ(explanation.anatomy.outputs.size(), 1u);
  EXPECT_EQ(explanation.anatomy.outputs.front().furthest, "[109, 2, 6] of [T, Hv, Dv]");
}

TEST_F(Changed, AValueThatIsNotFiniteIsToldAsAnIndexIntoItsArray) {
  output(35, 2, 5) = INFINITY;
  const Explanation explanation = explained();
  EXPECT_NE(explanation.anatomy.violation.find("the first: inf at [108, 2, 5] of [T, Hv, Dv]"),
            std::string::npos)
      << explanation.anatomy.violation;
  ASSERT_FALSE(explanation.patterns.empty());
  const std::vector<std::string>& evidence = explanation.patterns.front().evidence;
  EXPECT_EQ(evidence[1],
            "the first: sequence 1, head 2, token 35, column 5, at [108, 2, 5] of [T, Hv, Dv]");
}

// The first of the wrong heads is not the one to look at.
TEST_F(Changed, TheWorstHeadIsNamedFirst) {
  output(35, 0, 5) += 0.5f;
  output(35, 2, 5) += 50;
  output(35, 3, 5) += 5;
  const Explanation explanation = explained();
  EXPECT_EQ(explanation.anatomy.outputs.front().place(), "sequence 1, head 2");
  std::vector<std::int64_t> heads;
  for (const PairAnatomy& pair : explanation.anatomy.wrong) {
    heads.push_back(pair.output.where.head);
  }
  EXPECT_EQ(heads, (std::vector<std::int64_t>{2, 3, 0}));
  output(20, 3, 1) = std::nanf("");
  EXPECT_EQ(explained().anatomy.wrong.front().output.where, (BatchPart{1, 3}));
}

TEST_F(Changed, TheWorstStateIsTheEvidenceOfAWrongStore) {
  const auto state = [&](std::int64_t head, std::int64_t i, std::int64_t j) -> float& {
    const std::int64_t at = ((1 * 4 + head) * 24 + i) * 24 + j;  // sequence 1
    return outputs_["final_state"][static_cast<std::size_t>(at)];
  };
  state(0, 4, 1) += 0.5f;
  state(2, 11, 7) += 50;
  const Explanation explanation = explained();
  ASSERT_FALSE(explanation.patterns.empty());
  EXPECT_EQ(explanation.patterns.front().evidence.back(),
            "key rows 11 (1 of 24), value columns 7 (1 of 24)");
}

TEST_F(Changed, StateRowsAndColumnsAreLocated) {
  const std::int64_t slab = (1 * 4 + 3) * 24 * 24;  // sequence 1, head 3: [Dk, Dv]
  for (std::int64_t j : {7, 8, 9}) {
    outputs_["final_state"][static_cast<std::size_t>(slab + 11 * 24 + j)] += 1;
  }
  const Explanation explanation = explained();
  ASSERT_EQ(explanation.anatomy.wrong.size(), 1u);
  const PairAnatomy& pair = explanation.anatomy.wrong.front();
  EXPECT_FALSE(pair.output_wrong());
  EXPECT_EQ(pair.state_rows.members, (std::vector<std::int64_t>{11}));
  EXPECT_EQ(pair.state_columns.members, (std::vector<std::int64_t>{7, 8, 9}));
  ASSERT_FALSE(explanation.patterns.empty());
  EXPECT_EQ(explanation.patterns.front().place, "final state");
}

TEST_F(Changed, AnUnscaledQueryIsNamedWithItsFactor) {
  for (float& x : outputs_["output"]) x *= std::sqrt(24.0f);
  const Explanation explanation = explained();
  ASSERT_FALSE(explanation.patterns.empty());
  EXPECT_EQ(explanation.patterns.front().place, "scale");
  EXPECT_NE(explanation.patterns.front().evidence.back().find("sqrt(Dk)"), std::string::npos);
}

TEST_F(Changed, AnInitialStateThatIsNotReadIsNamed) {
  Case without = inputs_;
  without.problem.initial_state = InitialState::absent;
  outputs_ = narrowed(reference::evaluate<double>(without));
  const Explanation explanation = explained();
  ASSERT_FALSE(explanation.patterns.empty());
  EXPECT_EQ(explanation.patterns.front().place, "initial state");
}

TEST_F(Changed, OneHeadAloneIsNamed) {
  for (std::int64_t t = 0; t < 48; ++t) output(t, 1, 3) = 0;
  for (std::int64_t t = 0; t < 73; ++t) {
    outputs_["output"][static_cast<std::size_t>((t * 4 + 1) * 24 + 3)] = 0;
  }
  const Explanation explanation = explained();
  const Anatomy& anatomy = explanation.anatomy;
  EXPECT_EQ(anatomy.heads.members, (std::vector<std::int64_t>{1}));
  EXPECT_TRUE(anatomy.sequences.whole());
  ASSERT_FALSE(explanation.patterns.empty());
  EXPECT_EQ(explanation.patterns.front().place, "one head");
  EXPECT_EQ(anatomy.wrong.front().output_columns.members, (std::vector<std::int64_t>{3}));
}

TEST_F(Changed, OneSequenceAloneIsNamedAndThenItsStage) {
  for (std::int64_t t = 20; t < 48; ++t) {
    for (std::int64_t h = 0; h < 4; ++h) output(t, h, 3) += 1;
  }
  const Explanation explanation = explained();
  ASSERT_EQ(explanation.patterns.size(), 2u);
  EXPECT_EQ(explanation.patterns[0].place, "one sequence");
  EXPECT_EQ(explanation.patterns[1].place, "mid-chunk");
  EXPECT_NE(explanation.patterns[1].evidence.front().find("token is 20, index 4 of chunk 1"),
            std::string::npos)
      << explanation.patterns[1].evidence.front();
}

TEST_F(Changed, ErrorsFromTheSecondChunkOnAreTheStatePassedOrWhatOutputsTakeFromIt) {
  for (std::int64_t t = 16; t < 48; ++t) {
    for (std::int64_t h = 0; h < 4; ++h) output(t, h, 3) += 1;
  }
  EXPECT_EQ(explained().patterns.back().place, "state pass");
  // No state comes in, every state that leaves is right: only the outputs' share of it is left.
  inputs_.problem.initial_state = InitialState::absent;
  const CheckedReference reference(inputs_);
  Outputs outputs = narrowed(reference.wide());
  for (std::int64_t t = 16; t < 121; ++t) {
    if (t >= 73 && t < 73 + 16) continue;
    for (std::int64_t h = 0; h < 4; ++h)
      outputs["output"][static_cast<std::size_t>((t * 4 + h) * 24)] += 1;
  }
  EXPECT_EQ(explain(reference, outputs, 16).patterns.front().place, "chunk readout");
}

TEST_F(Changed, ErrorsInsideTheFirstChunkWithRightStatesAreTheScores) {
  for (std::int64_t t = 1; t < 48; ++t) {
    for (std::int64_t h = 0; h < 4; ++h) output(t, h, 3) += 1;
  }
  EXPECT_EQ(explained().patterns.back().place, "scores");
}

TEST_F(Changed, OutputsThatOnlyReadWronglyAreToldFromUpdates) {
  // Every output off, every state right: nothing that enters the state.
  for (float& x : outputs_["output"]) x += 0.5f;
  const Explanation explanation = explained();
  ASSERT_FALSE(explanation.patterns.empty());
  EXPECT_EQ(explanation.patterns.front().place, "readout");
}

TEST_F(Changed, SavedTensorsAreReferenceOutputsAndTheirDifference) {
  const TemporaryFolder folder;
  output(35, 2, 5) += 1;
  write_tensors(reference_, explained(), {}, folder.file("t.h5"));
  const GroupReader file(folder.file("t.h5"), "/");
  const Shape shape = {121, 4, 24};
  const auto expected = file.floats("reference_output", shape, "[T, Hv, Dv]");
  const auto actual = file.floats("output", shape, "[T, Hv, Dv]");
  const auto difference = file.floats("output_difference", shape, "[T, Hv, Dv]");
  EXPECT_EQ(actual, outputs_["output"]);
  const std::vector<double>& wide = reference_.wide()["output"];
  for (std::size_t i = 0; i < difference.size(); ++i) {
    const double exact = static_cast<double>(actual[i]) - wide[i];
    ASSERT_EQ(difference[i], static_cast<float>(exact)) << i;
    ASSERT_EQ(expected[i], static_cast<float>(wide[i])) << i;
  }
  EXPECT_NEAR(difference[((73 + 35) * 4 + 2) * 24 + 5], 1, 1e-6);
  EXPECT_NO_THROW(file.floats("final_state_difference", {2, 4, 24, 24}, "[slots, Hv, Dk, Dv]"));
}

// A layer whose recurrence is right and whose convolution is not.
TEST(ExplainedLayer, WindowsOfShortSequencesAreNamed) {
  const Case inputs = generate_case(Problem::parse(
      "gated_delta_layer:heads=2/4,dim=16,seq=20+2+0+33,gate=logits,beta=logit,norm=1,h0=normal"));
  const CheckedReference reference(inputs);
  Outputs outputs = narrowed(reference.wide());
  ASSERT_TRUE(explain(reference, outputs, 64).passed());
  const std::int64_t window = 3 * inputs.problem.conv_channels();
  outputs["conv_state"][static_cast<std::size_t>(window)] += 1;  // of sequence 1, two tokens long
  const Explanation explanation = explain(reference, outputs, 64);
  EXPECT_FALSE(explanation.passed());
  ASSERT_EQ(explanation.patterns.size(), 1u);
  EXPECT_EQ(explanation.patterns.front().place, "short window");
  const std::vector<std::string>& evidence = explanation.patterns.front().evidence;
  EXPECT_EQ(std::count(evidence.begin(), evidence.end(), "they hold what they held before"), 0);
  EXPECT_TRUE(explanation.anatomy.wrong.empty()) << "no head of the recurrence";
}

// Several outputs, each judged by its own units: none hides another.
class ChangedLayer : public ::testing::Test {
 protected:
  ChangedLayer()
      : inputs_(generate_case(Problem::parse(
            "gated_delta_layer:heads=2/4,dim=16,seq=20+2+0+33,gate=logits,beta=logit,norm=1,"
            "h0=normal,seed=5"))),
        reference_(inputs_),
        outputs_(narrowed(reference_.wide())) {}
  Explanation explained() { return explain(reference_, outputs_, 16); }
  float& at(const std::string& output, std::int64_t i) {
    return outputs_[output][static_cast<std::size_t>(i)];
  }
  std::string text() const { return inputs_.problem.to_string(); }

  Case inputs_;
  CheckedReference reference_;
  Outputs outputs_;
};

TEST_F(ChangedLayer, EveryOutputAboveItsLimitIsNamedTheWorstFirst) {
  at("conv_output", (22 + 5) * inputs_.problem.conv_channels() + 7) += 100;  // sequence 3, token 5
  at("final_state", (1 * 4 + 2) * 256 + 3 * 16 + 9) += 1e-3f;                // sequence 1, head 2
  const Explanation explanation = explained();
  const auto& wrong = explanation.anatomy.outputs;
  ASSERT_EQ(wrong.size(), 2u) << text();
  EXPECT_EQ(wrong[0].name(), "conv_output") << text();
  EXPECT_EQ(wrong[0].place(), "sequence 3");
  EXPECT_EQ(wrong[0].tokens.members, (std::vector<std::int64_t>{5}));
  EXPECT_EQ(wrong[0].elements.members, (std::vector<std::int64_t>{7}));
  EXPECT_EQ(wrong[0].sequences.to_string(), "3 (1 of 4)");
  EXPECT_EQ(wrong[0].heads.total, 0) << "it is not judged by head";
  EXPECT_EQ(wrong[1].name(), "final_state") << text();
  EXPECT_EQ(wrong[1].place(), "sequence 1, head 2");
  EXPECT_EQ(wrong[1].elements.members, (std::vector<std::int64_t>{3 * 16 + 9}));
  EXPECT_EQ(wrong[1].heads.to_string(), "2 (1 of 4)");
  EXPECT_GE(wrong[0].excess, wrong[1].excess);
  EXPECT_TRUE(unexplained(explanation).empty()) << unexplained(explanation).front();
}

// A fault beside the recurrence does not silence what is said of it.
TEST_F(ChangedLayer, AWrongWindowDoesNotHideTheStageThatIsWrong) {
  at("conv_state", 3 * inputs_.problem.conv_channels()) += 1;  // sequence 1, two tokens long
  for (std::int64_t t = 22 + 16; t < 22 + 33; ++t) at("output", (t * 4 + 1) * 16) += 1;
  const Explanation explanation = explained();
  ASSERT_EQ(explanation.anatomy.outputs.size(), 2u) << text();
  std::vector<std::string> places;
  for (const FaultPattern& pattern : explanation.patterns) places.push_back(pattern.place);
  EXPECT_EQ(places,
            (std::vector<std::string>{"short window", "one head", "one sequence", "state pass"}))
      << text();
  EXPECT_EQ(explanation.patterns[0].outputs, std::vector<std::string>{"conv_state"})
      << "the recurrence is not wrong because of it";
  EXPECT_TRUE(unexplained(explanation).empty()) << unexplained(explanation).front();
}

TEST_F(ChangedLayer, WhatNoPatternIsAboutIsSaidByOutputPlaceAndSize) {
  for (std::int64_t t : {4, 5, 6}) at("output", ((22 + t) * 4 + 3) * 16 + 1) = 1e3f;
  Explanation explanation = explained();
  explanation.patterns.clear();
  const std::vector<std::string> lines = unexplained(explanation);
  ASSERT_EQ(lines.size(), 1u) << text();
  for (const char* words : {"output of sequence 3, head 3, tokens 4 .. 6 (3 of 33)",
                            "relative L2 error", "of the limit"}) {
    EXPECT_NE(lines[0].find(words), std::string::npos) << words << " not in " << lines[0];
  }
}

// The planted fault is in the second output alone.
TEST(ExplainedConvolution, AFaultInTheWindowsIsFoundThereAndNamed) {
  const char* const problem = "causal_conv1d:heads=1/2,dim=8,seq=20+9+1,dtype=f32,seed=3";
  const auto device = open_device("cpu");
  const Case inputs = generate_case(Problem::parse(problem));
  const CheckedReference reference(inputs);
  const Explanation explanation =
      explain(reference, *make_faulty(Fault::conv_window_activated), *device);
  const auto& wrong = explanation.anatomy.outputs;
  ASSERT_EQ(wrong.size(), 1u) << problem;
  EXPECT_EQ(wrong[0].name(), "conv_state") << problem;
  EXPECT_EQ(wrong[0].sequences.to_string(), "0 .. 2 (3 of 3)") << problem;
  EXPECT_FALSE(wrong[0].by_tokens());
  EXPECT_FALSE(wrong[0].elements.empty());
  EXPECT_NE(wrong[0].actual, wrong[0].expected);
  ASSERT_FALSE(explanation.patterns.empty()) << problem;
  EXPECT_EQ(explanation.patterns.front().outputs, (std::vector<std::string>{"conv_state"}));
}

// However windows are held, right outputs are explained by nothing, and reversed windows by themselves.
TEST(ExplainedConvolution, WindowsHeldOtherwise) {
  for (const char* held : {"window=read", "window=written", "window=none", "fresh=1",
                           "window_order=ring", "window_layout=channels,window_length=5",
                           "residual=1", "residual=tensor", "weights=f32,bias=1"}) {
    const Case inputs = generate_case(
        Problem::parse("causal_conv1d:channels=6,seq=20+9+1,dtype=f32," + std::string(held)));
    const CheckedReference reference(inputs);
    const Explanation explanation = explain(reference, narrowed(reference.wide()), 64);
    EXPECT_TRUE(explanation.passed()) << held;
    EXPECT_TRUE(explanation.patterns.empty()) << held;
  }
  const Case inputs = generate_case(Problem::parse(
      "causal_conv1d:channels=6,seq=20+9,dtype=f32,window_layout=channels,window_length=5"));
  Case reversed = inputs;  // [2 rows, 5 places, 6 channels]
  for (std::size_t row = 0; row < 2; ++row) {
    for (std::size_t place = 0; place < 5; ++place) {
      for (std::size_t c = 0; c < 6; ++c) {
        reversed["conv_state"][(row * 5 + place) * 6 + c] =
            inputs["conv_state"][(row * 5 + 4 - place) * 6 + c];
      }
    }
  }
  const CheckedReference reference(inputs);
  Outputs outputs = narrowed(reference.wide());
  outputs["conv_output"] = narrowed(CheckedReference(reversed).wide())["conv_output"];
  const Explanation explanation = explain(reference, outputs, 64);
  ASSERT_FALSE(explanation.patterns.empty());
  EXPECT_EQ(explanation.patterns.front().place, "conv window");
  EXPECT_NE(explanation.patterns.front().text.find("newest first"), std::string::npos);
}

TEST(ExplainedConvolution, ARingTakenForAWindowWithItsOldestInputFirst) {
  Case inputs = generate_case(Problem::parse(
      "causal_conv1d:channels=6,seq=20+9,dtype=f32,window_order=ring,window_length=5"));
  inputs.other_indices["window_position"] = {7, 13};
  Case straight = inputs;
  straight.problem.window_order = WindowOrder::oldest_first;
  straight.other_indices.erase("window_position");
  const CheckedReference reference(inputs);
  const Explanation explanation =
      explain(reference, narrowed(CheckedReference(straight).wide()), 64);
  ASSERT_EQ(explanation.patterns.size(), 2u);
  EXPECT_EQ(explanation.patterns[0].place, "conv window");
  EXPECT_NE(explanation.patterns[0].text.find("oldest input first"), std::string::npos);
  EXPECT_EQ(explanation.patterns[1].place, "final window");
  EXPECT_NE(explanation.patterns[1].text.find("modulo 5"), std::string::npos);
}

// No pattern is about a norm: its output, the place and the size are said all the same.
TEST(ExplainedNorm, AFaultThatNoPatternKnowsIsPlaced) {
  const char* const problem = "gated_rms_norm:heads=1/3,dim=8x16,seq=1x20+1x9,dtype=f32,seed=3";
  const auto device = open_device("cpu");
  const Case inputs = generate_case(Problem::parse(problem));
  const CheckedReference reference(inputs);
  const Explanation explanation =
      explain(reference, *make_faulty_norm(NormFault::last_rows_left_out), *device);
  ASSERT_EQ(explanation.anatomy.outputs.size(), 1u) << problem;
  const WrongOutput& wrong = explanation.anatomy.outputs[0];
  EXPECT_EQ(wrong.sequences.to_string(), "1 (1 of 2)") << problem;
  EXPECT_EQ(wrong.heads.to_string(), "0 .. 2 (3 of 3)") << problem;
  const std::vector<std::string> lines = unexplained(explanation);
  ASSERT_EQ(lines.size(), 1u) << problem;
  EXPECT_EQ(lines[0].rfind("y of sequence 1, head ", 0), 0u) << lines[0];
  EXPECT_NE(lines[0].find("tokens 8 (1 of 9): relative L2 error"), std::string::npos) << lines[0];
}

TEST(WrongSets, PrintRunsAndStopAfterFour) {
  EXPECT_EQ((WrongSet{5, {}}.to_string()), "none (0 of 5)");
  EXPECT_EQ((WrongSet{9, {1, 2, 3, 7}}.to_string()), "1 .. 3, 7 (4 of 9)");
  EXPECT_EQ((WrongSet{20, {0, 2, 4, 6, 8}}.to_string()), "0, 2, 4, 6, ... (5 of 20)");
}

// ---- what a pass does not exclude

std::vector<std::string> untold_of(const std::string& problem) {
  const Case inputs = generate_case(Problem::parse(problem));
  const CheckedReference reference(inputs);
  std::vector<std::string> names;
  for (const UntoldForm& form : untold_forms(reference)) {
    EXPECT_FALSE(form.why.empty()) << to_string(form.form);
    names.push_back(to_string(form.form));
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(UntoldForms, ARichCaseLeavesOnlyWhatItDoesNotAskFor) {
  // Lengths of keys other than 1, so that a norm would show.
  EXPECT_EQ(untold_of(std::string(kWithState) + ",keys=unnormalised"),
            Names{"queries and keys that are not normalised"});
  EXPECT_EQ(untold_of(std::string(kWithState) + ",keys=unnormalised,norm=1"),
            Names{"queries and keys that are normalised unasked"});
}

TEST(UntoldForms, EachIsLeftByACaseThatCannotTell) {
  const struct {
    const char* problem;
    const char* form;
  } cases[] = {
      {"gated_delta:heads=2/4,dim=16,seq=1x40,gates=none", "the decay after the update"},
      {"gated_delta:heads=2/4,dim=16,seq=1x40,gates=none", "gates that are not read"},
      {"gated_delta:heads=2/4,dim=16,seq=1x40,betas=one", "betas that are not read"},
      {"gated_delta:heads=2/4,dim=16,seq=3x1", "an update without the delta term"},
      {"gated_delta:heads=4/4,dim=16,seq=1x40", "key head h % Hk for value head h"},
      {"gated_delta:heads=2/4,dim=16,seq=1x40,scale=1", "queries that are not scaled"},
      {"gated_delta:heads=2/4,dim=16,seq=1x40,h0=absent",
       "the initial state read in the other memory order"},
      {"gated_delta:heads=2/4,dim=16,seq=1x40,h0=normal,ht=0",
       "the final state written in the other memory order"},
  };
  for (const auto& [problem, form] : cases) {
    const Names untold = untold_of(problem);
    EXPECT_NE(std::find(untold.begin(), untold.end(), form), untold.end())
        << problem << ": " << form;
  }
}

// A supposition that would be the right form on such a problem is not posed, and why is said.
TEST(FaultHypotheses, AreNotPosedWhereTheyAreTheRightForm) {
  const struct {
    Hypothesis hypothesis;
    const char* options;
    const char* why;
  } cases[] = {
      {Hypothesis::tiled_heads, "heads=1/4,dim=8", "there is one key head"},
      {Hypothesis::tiled_heads, "heads=4/4,dim=8", "there are as many key heads as value heads"},
      {Hypothesis::tiled_heads, "heads=2/4,dim=8", ""},
      {Hypothesis::initial_state_transposed, "heads=2/4,dim=1x8,h0=normal", "a state is a vector"},
      {Hypothesis::initial_state_transposed, "heads=2/4,dim=8x1,h0=normal", "a state is a vector"},
      {Hypothesis::initial_state_transposed, "heads=2/4,dim=8,h0=normal", ""},
      {Hypothesis::initial_state_transposed, "heads=2/4,dim=8,h0=absent",
       "there is no initial state"},
      {Hypothesis::initial_state_zero, "heads=2/4,dim=1x8,h0=normal", ""},
      {Hypothesis::initial_state_zero, "heads=2/4,dim=8,h0=absent", "there is no initial state"},
      {Hypothesis::final_state_transposed, "heads=2/4,dim=1x8", "a state is a vector"},
      {Hypothesis::final_state_transposed, "heads=2/4,dim=8x1", "a state is a vector"},
      {Hypothesis::final_state_transposed, "heads=2/4,dim=8,ht=0", "no final state is written"},
      {Hypothesis::final_state_transposed, "heads=2/4,dim=8", ""},
      {Hypothesis::no_norm, "heads=2/4,dim=8", "no norm is asked for"},
      {Hypothesis::no_norm, "heads=2/4,dim=8,norm=1", ""},
      {Hypothesis::norm, "heads=2/4,dim=8", ""},
      {Hypothesis::norm, "heads=2/4,dim=8,norm=1", "a norm is asked for"},
      {Hypothesis::no_scale, "heads=2/4,dim=8", ""},
      {Hypothesis::no_scale, "heads=2/4,dim=8,scale=1", "the scale is 1"},
      {Hypothesis::no_decay, "heads=2/4,dim=1,h0=absent", ""},
  };
  for (const auto& [hypothesis, options, why] : cases) {
    const Problem problem = Problem::parse(std::string("gated_delta:seq=1x9,") + options);
    EXPECT_EQ(why_not_posed(hypothesis, problem), why) << to_string(hypothesis) << " " << options;
  }
}

// The planted faults are the same wrong forms, in another program: told where it is.
TEST(UntoldForms, WhatIsToldFailsAndWhatIsNotPasses) {
  const auto device = open_device("cpu");
  const struct {
    Fault fault;
    Hypothesis form;
  } planted[] = {{Fault::tiled_head_map, Hypothesis::tiled_heads},
                 {Fault::no_delta_term, Hypothesis::no_correction},
                 {Fault::state_written_transposed, Hypothesis::final_state_transposed}};
  for (const char* problem :
       {kWithState, "gated_delta:heads=1/2,dim=24x24,seq=3x1,ht=0,gates=mid"}) {
    const Case inputs = generate_case(Problem::parse(problem));
    const CheckedReference reference(inputs);
    std::set<Hypothesis> untold;
    for (const UntoldForm& form : untold_forms(reference)) untold.insert(form.form);
    for (const auto& [fault, form] : planted) {
      const Explanation wrong = explain(reference, *make_faulty(fault), *device);
      EXPECT_EQ(wrong.passed(), untold.count(form) > 0) << problem << ": " << to_string(form);
    }
  }
}

TEST(UntoldForms, AStateOf16BitErrorIsSaidSo) {
  const Case inputs =
      generate_case(Problem::parse("gated_delta:heads=1/2,dim=16,seq=1x40,dtype=bf16,h0=normal"));
  const CheckedReference reference(inputs);
  const auto note = [&](double scale) {
    Outputs outputs;
    for (const auto& [name, values] : reference.wide()) {
      outputs[name].assign(values.begin(), values.end());
    }
    for (float& value : outputs["final_state"]) value *= static_cast<float>(1 + scale);
    return rounded_state_untold(inputs.problem, reference.compare(outputs));
  };
  EXPECT_NE(note(0x1p-10).find("rounded to 16 bits"), std::string::npos);
  EXPECT_NE(note(0x1.01p-13).find("rounded to 16 bits"), std::string::npos);
  EXPECT_EQ(note(0x1.fp-14), "");
  EXPECT_EQ(note(0), "");
}

TEST(UntoldForms, NobodyKnowsThoseOfOtherOperationsAndVariants) {
  EXPECT_EQ(untold_of("gated_delta:heads=2/4,dim=16,seq=1x9,update=additive"), Names{});
  EXPECT_EQ(untold_of("causal_conv1d:channels=12,seq=1x9"), Names{});
}

}  // namespace
}  // namespace gdn::testing
