// Wrong commits of gated_delta_verify, made of cpu/records with another count of accepted tokens: each
// is rejected by the check named. And what the general checks make of tokens that are not carried.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/operations/generate_case.h"
#include "harness/operations/operation_harness.h"
#include "harness/run/batches.h"
#include "harness/run/execute.h"
#include "harness/verify/verify.h"
#include "interface/error.h"
#include "interface/operations/gated_delta_verify.h"
#include "interface/phase_group.h"

namespace gdn::testing {
namespace {

enum class DraftFault {
  none,
  one_more,            ///< commits one token more than was accepted
  one_less,            ///< commits one token less
  at_least_one,        ///< commits a token where none was accepted
  all_of_draft,        ///< commits every token
  of_first_sequence,   ///< accepted [0] for every sequence
  of_plan,             ///< accepted as it was when the plan was made
  commits_in_verify,   ///< the first phase writes the pool
  accepted_in_verify,  ///< the first phase reads accepted: commits as many as it said then
  last_of_group_left,  ///< plans that commit together do but for the last one
};

const Implementation& records() {
  return find_implementation(gated_delta_verify_operation(), "cpu/records");
}

class AllButLast final : public PhaseGroup {
 public:
  AllButLast(std::span<Plan* const> plans, int phase)
      : plans_(plans.begin(), plans.end() - 1), phase_(phase) {}
  const Info& info() const override { return info_; }
  void run() override {
    for (Plan* const plan : plans_) plan->run_phase(phase_);
  }

 private:
  std::vector<Plan*> plans_;
  int phase_;
  Info info_;
};

class FaultyDraftPlan final : public Plan {
 public:
  FaultyDraftPlan(const Problem& problem, const Arguments& arguments, Device& device,
                  DraftFault fault)
      : sequences_(problem.num_sequences()),
        fault_(fault),
        right_(gated_delta_verify_arguments(problem, arguments)) {
    for (std::int64_t n = 0; n < sequences_; ++n) accepted_.push_back(right_.accepted[n]);
    Arguments changed = arguments;
    changed.set_input("accepted", accepted_.data());
    plan_ = records().plan(problem, changed, device);
  }
  const PlanInfo& info() const override { return plan_->info(); }
  void run() override {
    count();
    plan_->run();
  }
  void run_phase(int phase) override {
    if (fault_ != DraftFault::accepted_in_verify || phase == 0) count();
    plan_->run_phase(phase);
    if (fault_ == DraftFault::commits_in_verify && phase == 0) plan_->run_phase(1);
  }
  std::unique_ptr<PhaseGroup> group(std::span<Plan* const> plans, int phase,
                                    Device&) const override {
    if (fault_ != DraftFault::last_of_group_left || phase == 0) return nullptr;
    return std::make_unique<AllButLast>(plans, phase);
  }

 private:
  void count() {
    for (std::int64_t n = 0; n < sequences_; ++n) {
      accepted_[static_cast<std::size_t>(n)] = wrong_count(n);
    }
  }
  std::int64_t wrong_count(std::int64_t n) const {
    const IndexArray offsets = right_.draft.sequence_offsets;
    const std::int64_t length = offsets[n + 1] - offsets[n];
    const std::int64_t right = right_.accepted[n];
    switch (fault_) {
      case DraftFault::one_more:
        return std::min(right + 1, length);
      case DraftFault::one_less:
        return std::max<std::int64_t>(right - 1, 0);
      case DraftFault::at_least_one:
        return std::min(std::max<std::int64_t>(right, 1), length);
      case DraftFault::all_of_draft:
        return length;
      case DraftFault::of_first_sequence:
        return std::min(right_.accepted[0], length);
      case DraftFault::of_plan:
        return std::min(accepted_[static_cast<std::size_t>(n)], length);
      case DraftFault::none:
      case DraftFault::commits_in_verify:
      case DraftFault::accepted_in_verify:
      case DraftFault::last_of_group_left:
        break;
    }
    return right;
  }

  std::int64_t sequences_;
  DraftFault fault_;
  GatedDeltaVerifyArguments right_;
  std::vector<std::int64_t> accepted_;
  std::unique_ptr<Plan> plan_;
};

class FaultyDraft final : public Implementation {
 public:
  explicit FaultyDraft(DraftFault fault) : fault_(fault) {}
  const Description& description() const override { return records().description(); }
  Support supports(const Problem& problem) const override { return records().supports(problem); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return records().workspace_bytes(problem);
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    return std::make_unique<FaultyDraftPlan>(problem, arguments, device, fault_);
  }

 private:
  DraftFault fault_;
};

Case five_drafts() {
  return generate_case(
      Problem::parse("gated_delta_verify:heads=2/4,dim=16x24,seq=5+4+3+8+6,dtype=bf16,h0=normal"));
}

VerifyResult verified_draft(DraftFault fault, const Case& inputs) {
  const auto device = open_device("cpu");
  VerifyOptions options = VerifyOptions::all_invariances();
  options.every_split = options.token_by_token = true;
  return verify(FaultyDraft(fault), inputs, *device, options);
}

const Check* check_of(const VerifyResult& result, const std::string& name) {
  for (const Check& check : result.checks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

TEST(DraftFaults, TheFormWithoutAFaultPasses) {
  const VerifyResult result = verified_draft(DraftFault::none, five_drafts());
  EXPECT_TRUE(result.passed()) << result.reason;
  for (const char* name : {"continuation", "every_split", "phases", "refilled", "readout"}) {
    ASSERT_NE(check_of(result, name), nullptr) << name;
    EXPECT_EQ(check_of(result, name)->result, Check::Result::passed) << name;
  }
}

struct PlantedDraft {
  DraftFault fault;
  const char* caught_by;
};

class PlantedDraftFault : public ::testing::TestWithParam<PlantedDraft> {};

TEST_P(PlantedDraftFault, IsRejectedByItsCheck) {
  const VerifyResult result = verified_draft(GetParam().fault, five_drafts());
  const Check* const check = check_of(result, GetParam().caught_by);
  ASSERT_NE(check, nullptr);
  EXPECT_EQ(check->result, Check::Result::failed) << result.reason;
}

INSTANTIATE_TEST_SUITE_P(Faults, PlantedDraftFault,
                         ::testing::Values(PlantedDraft{DraftFault::one_more, "errors"},
                                           PlantedDraft{DraftFault::one_less, "errors"},
                                           PlantedDraft{DraftFault::at_least_one, "errors"},
                                           PlantedDraft{DraftFault::all_of_draft, "errors"},
                                           PlantedDraft{DraftFault::of_first_sequence, "errors"},
                                           PlantedDraft{DraftFault::of_plan, "refilled"},
                                           PlantedDraft{DraftFault::commits_in_verify, "phases"},
                                           PlantedDraft{DraftFault::accepted_in_verify, "phases"},
                                           PlantedDraft{DraftFault::last_of_group_left, "phases"}),
                         [](const auto& tested) {
                           return "Fault" + std::to_string(static_cast<int>(tested.param.fault)) +
                                  "_" + tested.param.caught_by;
                         });

// The state after one token more or less does not read out the output of the last accepted one: seen
// without a reference, in every type of tokens.
TEST(DraftFaults, AStateOfOtherTokensIsSeenByItsReadout) {
  const auto device = open_device("cpu");
  const OwnCheck& readout = harness_of(gated_delta_verify_operation()).checks.front();
  ASSERT_EQ(readout.name, "readout");
  for (const char* options :
       {"dtype=f32", "dtype=f16,state=f16,layout=vk", "dtype=bf16,state=bf16,norm=1"}) {
    const Case inputs =
        generate_case(Problem::parse("gated_delta_verify:heads=2/4,dim=16x24,seq=5+4+3+8+6,"
                                     "h0=normal,slots=padding," +
                                     std::string(options)));
    const auto wrong = [&](DraftFault fault) {
      return readout.wrong(inputs, execute(FaultyDraft(fault), inputs, *device));
    };
    EXPECT_EQ(wrong(DraftFault::none), "") << options;
    for (const DraftFault fault : {DraftFault::one_more, DraftFault::one_less}) {
      EXPECT_NE(wrong(fault).find("is not the state that the output"), std::string::npos)
          << options << ": " << wrong(fault);
    }
  }
}

// A sequence is cut behind its accepted tokens at the latest: the first call accepts all it has, and
// the rest goes on from a state that the call on the whole had at that place.
TEST(Drafts, AreCutBehindTheirAcceptedTokensAtTheLatest) {
  Case whole = five_drafts();
  whole.other_indices["accepted"] = {5, 0, 1, 3, 6};
  const Case first = first_part(whole, in_halves);
  EXPECT_EQ(first.problem.sequences.lengths, (std::vector<std::int64_t>{2, 0, 1, 3, 3}));
  EXPECT_EQ(first.other_indices["accepted"], first.problem.sequences.lengths);
  const auto device = open_device("cpu");
  const Case second = second_part(whole, in_halves, execute(records(), first, *device));
  EXPECT_EQ(second.problem.sequences.lengths, (std::vector<std::int64_t>{3, 4, 2, 5, 3}));
  EXPECT_EQ(second.other_indices["accepted"], (std::vector<std::int64_t>{3, 0, 0, 0, 3}));
  EXPECT_TRUE(cuts_a_sequence(whole, in_halves));
}

// What cannot be cut is not passed.
TEST(Drafts, OfWhichNothingIsAcceptedHaveNoContinuation) {
  Case inputs = five_drafts();
  inputs.other_indices["accepted"] = {0, 0, 0, 0, 0};
  EXPECT_FALSE(cuts_a_sequence(inputs, in_halves));
  const VerifyResult result = verified_draft(DraftFault::none, inputs);
  EXPECT_TRUE(result.passed()) << result.reason;
  for (const char* name : {"continuation", "every_split"}) {
    EXPECT_EQ(check_of(result, name)->result, Check::Result::not_applicable) << name;
  }
}

TEST(Drafts, AcceptedBeyondTheDraftIsRefused) {
  Case inputs = five_drafts();
  inputs.other_indices["accepted"] = {0, 0, 4, 0, 0};
  try {
    validate(inputs);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "accepted: value 4 at index 2, expected 0 .. the tokens of the sequence");
  }
}

}  // namespace
}  // namespace gdn::testing
