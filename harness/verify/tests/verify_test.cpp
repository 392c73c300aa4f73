// What a verified run notices beyond wrong numbers: writes out of bounds, inputs written to, pool
// rows touched, bits that depend on the run or on the batch, memory that is not there.
#include "harness/verify/verify.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "harness/operations/generate_case.h"
#include "harness/run/memory_needed.h"
#include "harness/tests/planted_faults/faulty_implementation.h"
#include "harness/verify/worst_unit.h"
#include "interface/error.h"
#include "interface/forwarding_device.h"
#include "interface/operations/causal_conv1d.h"
#include "interface/operations/gated_delta.h"
#include "interface/operations/gated_delta_layer.h"

namespace gdn {
namespace {

constexpr std::int64_t kWorkspaceBytes = 100;

// cpu/recurrent, with something done after every run.
class Tampering : public Implementation {
 public:
  /// Problem, arguments, and the workspace the plan allocated.
  using Tamper = std::function<void(const Problem&, const GatedDeltaArguments&, char*)>;
  explicit Tampering(Tamper tamper)
      : base_(find_implementation(gated_delta_operation(), "cpu/recurrent")),
        description_(base_.description()),
        tamper_(std::move(tamper)) {
    description_.name = "cpu/tampering";
  }
  const Description& description() const override { return description_; }
  Description& mutable_description() { return description_; }
  Support supports(const Problem& problem) const override { return base_.supports(problem); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return base_.workspace_bytes(problem);
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    return std::make_unique<TamperedPlan>(base_.plan(problem, arguments, device), *this, problem,
                                          gated_delta_arguments(problem, arguments), device);
  }

 private:
  class TamperedPlan : public Plan {
   public:
    TamperedPlan(std::unique_ptr<Plan> base, const Tampering& owner, const Problem& problem,
                 const GatedDeltaArguments& arguments, Device& device)
        : base_(std::move(base)),
          owner_(owner),
          problem_(problem),
          arguments_(arguments),
          workspace_(device.allocate(kWorkspaceBytes)) {}
    const PlanInfo& info() const override { return base_->info(); }
    void run() override {
      base_->run();
      owner_.tamper_(problem_, arguments_, workspace_.as<char>());
    }

   private:
    std::unique_ptr<Plan> base_;
    const Tampering& owner_;
    Problem problem_;
    GatedDeltaArguments arguments_;
    DeviceBuffer workspace_;
  };

  const Implementation& base_;
  Description description_;
  Tamper tamper_;
};

const char* const kProblem =
    "gated_delta:heads=1/2,dim=16x8,seq=1x40+1x9+1x0+1x21,dtype=f32,h0=normal,gates=mid,"
    "slots=permuted,pool_pad=4,seed=5";

std::int64_t output_count(const Problem& p) {
  return p.total_tokens() * p.num_value_heads * p.value_head_dim;
}

VerifyResult verified(const Tampering& implementation, const std::string& problem = kProblem,
                      const VerifyOptions& options = {}) {
  const auto device = open_device("cpu");
  return verify(implementation, generate_case(Problem::parse(problem)), *device, options);
}

void expect_failure(const Tampering::Tamper& tamper, const std::string& words) {
  const VerifyResult result = verified(Tampering(tamper));
  EXPECT_EQ(result.verdict, Verdict::failed) << kProblem;
  EXPECT_NE(result.reason.find(words), std::string::npos) << result.reason;
}

TEST(Verify, PassesAnUntamperedRun) {
  const VerifyResult result =
      verified(Tampering([](const Problem&, const GatedDeltaArguments&, char*) {}));
  EXPECT_TRUE(result.passed()) << kProblem << ": " << result.reason;
  ASSERT_EQ(result.checks.size(), 5u);
  for (const Check& check : result.checks) {
    EXPECT_EQ(check.result, Check::Result::passed) << check.name << ": " << check.detail;
  }
}

TEST(Verify, FindsAWriteBehindTheOutput) {
  expect_failure([](const Problem& p, const GatedDeltaArguments& a,
                    char*) { static_cast<float*>(a.output)[output_count(p)] = 1.0f; },
                 "past the end of 'output'");
}

TEST(Verify, FindsAWriteBeforeTheStatePool) {
  expect_failure([](const Problem&, const GatedDeltaArguments& a,
                    char*) { static_cast<float*>(a.state_pool)[-3] = 1.0f; },
                 "before the start of 'initial_state'");
}

TEST(Verify, FindsAWriteToAnInput) {
  expect_failure([](const Problem&, const GatedDeltaArguments& a,
                    char*) { const_cast<float*>(static_cast<const float*>(a.key))[7] += 1.0f; },
                 "input 'k' was written to");
}

TEST(Verify, FindsAWriteBehindTheWorkspace) {
  expect_failure([](const Problem&, const GatedDeltaArguments&,
                    char* workspace) { workspace[kWorkspaceBytes] = 1; },
                 "past the end of 'workspace'");
}

TEST(Verify, FindsATouchedPoolRow) {
  expect_failure(
      [](const Problem& p, const GatedDeltaArguments& a, char*) {
        // Four sequences in seven rows: some row between is nobody's.
        for (std::int64_t row = 0; row < p.num_pool_rows(); ++row) {
          bool owned = false;
          for (std::int64_t n = 0; n < p.num_sequences(); ++n) {
            owned = owned || a.slot_index[n] == row;
          }
          if (!owned) {
            static_cast<float*>(a.state_pool)[row * p.state_row_stride()] += 0.5f;
            return;
          }
        }
      },
      "1 elements changed that no sequence may write");
}

TEST(Verify, FindsTouchedRowPadding) {
  expect_failure([](const Problem& p, const GatedDeltaArguments& a,
                    char*) { static_cast<float*>(a.state_pool)[p.state_row_stride() - 1] = 0.0f; },
                 "1 elements changed that no sequence may write");
}

TEST(Verify, FindsAnUnwrittenElementOfTheLastToken) {
  expect_failure([](const Problem& p, const GatedDeltaArguments& a,
                    char*) { static_cast<float*>(a.output)[output_count(p) - 1] = std::nanf(""); },
                 "output of sequence 3, head 1: 1 values not finite");
}

// Told as an index into the operand's shape, which a reader can go to, and not as a flat number.
TEST(Verify, SaysWhereTheFirstValueThatIsNotFiniteStands) {
  expect_failure(
      [](const Problem&, const GatedDeltaArguments& a, char*) {
        static_cast<float*>(a.output)[(44 * 2 + 1) * 8 + 3] = std::nanf("");
        static_cast<float*>(a.output)[(44 * 2 + 1) * 8 + 7] = INFINITY;
      },
      "output of sequence 1, head 1: 2 values not finite");
  expect_failure([](const Problem&, const GatedDeltaArguments& a,
                    char*) { static_cast<float*>(a.output)[(44 * 2 + 1) * 8 + 3] = -INFINITY; },
                 "the first: -inf at [44, 1, 3] of [T, Hv, Dv], expected ");
  expect_failure(
      [](const Problem& p, const GatedDeltaArguments& a, char*) {
        const std::int64_t row = a.slot_index[0] * p.state_row_stride();
        static_cast<float*>(a.state_pool)[row + (1 * 16 + 2) * 8 + 5] = std::nanf("");
      },
      "the first: nan at [");
  expect_failure(
      [](const Problem& p, const GatedDeltaArguments& a, char*) {
        const std::int64_t row = a.slot_index[0] * p.state_row_stride();
        static_cast<float*>(a.state_pool)[row + (1 * 16 + 2) * 8 + 5] = std::nanf("");
      },
      ", 1, 2, 5] of [slots, Hv, Dk, Dv], expected ");
}

// A head whose error is larger may be further below its limit than another's is above its own.
TEST(Verify, NamesTheHeadFurthestAboveItsLimitAndNotTheFirst) {
  expect_failure(
      [](const Problem&, const GatedDeltaArguments& a, char*) {
        float* output = static_cast<float*>(a.output);
        output[(3 * 2 + 0) * 8] += 0.1f;
        output[(44 * 2 + 1) * 8] += 10.0f;
      },
      "errors: output of sequence 1, head 1: ");
  expect_failure(
      [](const Problem&, const GatedDeltaArguments& a, char*) {
        float* output = static_cast<float*>(a.output);
        output[(3 * 2 + 0) * 8] += 100.0f;
        output[(44 * 2 + 1) * 8] = std::nanf("");
      },
      "errors: output of sequence 1, head 1: 1 values not finite");
}

TEST(WorstUnit, IsTheOneOfTheLargestErrorInUnitsOfItsOwnLimit) {
  reference::OutputErrors output;
  output.operand = gated_delta_operation().find_output("output");
  const reference::ErrorLimits limits = {{"output", {1e-3, 1e-3}}, {"final_state", {1e-3, 0}}};
  output.units.resize(3);
  output.units[0].error.relative_l2 = 5e-3;  // the largest, with a readout that allows it
  output.units[0].readout = 100;
  output.units[1].error.relative_l2 = 2e-3;
  output.units[2].error.relative_l2 = 1e-3;
  EXPECT_EQ(&worst_unit(output, limits), &output.units[1]);
  EXPECT_DOUBLE_EQ(limit_ratio(output, output.units[1], limits), 2);
  output.units[2].error.relative_l2 = std::nan("");
  EXPECT_EQ(&worst_unit(output, limits), &output.units[2]);
  output.units[2].error = {};
  EXPECT_EQ(limit_ratio(output, output.units[2], limits), 0);
  output.units[2].error.non_finite = 1;
  EXPECT_EQ(&worst_unit(output, limits), &output.units[2]);
}

// Workspaces start as NaN, so that a kernel which counts on zeros there is found.
TEST(Verify, FindsAReadOfWorkspaceThatNobodyWrote) {
  expect_failure(
      [](const Problem&, const GatedDeltaArguments& a, char* workspace) {
        static_cast<float*>(a.output)[0] += *reinterpret_cast<const float*>(workspace);
      },
      "1 values not finite");
}

// Without updates and without a state every output is exactly zero: memory that happened to hold
// zeros would pass for a result, were it not filled with NaN before the run.
TEST(Verify, FindsAKernelThatWritesNothingWhereZerosAreRight) {
  class WritesNothing : public Tampering {
   public:
    WritesNothing() : Tampering([](const Problem&, const GatedDeltaArguments&, char*) {}) {}
    std::unique_ptr<Plan> plan(const Problem&, const Arguments&, Device&) const override {
      class NoPlan : public Plan {
        const PlanInfo& info() const override { return info_; }
        void run() override {}
        PlanInfo info_;
      };
      return std::make_unique<NoPlan>();
    }
  };
  const std::string problem = "gated_delta:heads=1/2,dim=16x8,seq=1x40,dtype=f32,betas=zero,ht=0";
  const auto nothing = [](const Problem&, const GatedDeltaArguments&, char*) {};
  ASSERT_TRUE(verified(Tampering(nothing), problem).passed());
  const VerifyResult result = verified(WritesNothing(), problem);
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_NE(result.reason.find("320 values not finite"), std::string::npos) << result.reason;
}

// One unit in the last place: far below every error limit, and yet not the same bits.
void nudge(void* output) {
  float& x = static_cast<float*>(output)[0];
  x = std::nextafter(x, 2.0f);
}

TEST(Verify, FindsBitsThatChangeFromRunToRun) {
  int runs = 0;
  expect_failure(
      [&runs](const Problem&, const GatedDeltaArguments& a, char*) {
        if (++runs == 2) nudge(a.output);
      },
      "repeat: a second run differs: output differs at [0, 0, 0] of [T, Hv, Dv]");
}

TEST(Verify, FindsStatesThatChangeFromRunToRun) {
  int runs = 0;
  expect_failure(
      [&runs](const Problem& p, const GatedDeltaArguments& a, char*) {
        if (++runs == 2) {
          nudge(static_cast<float*>(a.state_pool) + a.slot_index[0] * p.state_row_stride());
        }
      },
      "repeat: a second run differs: final_state differs");
}

TEST(Verify, SparesRunsDeclaredNotRepeatable) {
  int runs = 0;
  Tampering implementation([&runs](const Problem&, const GatedDeltaArguments& a, char*) {
    if (++runs == 2) nudge(a.output);
  });
  implementation.mutable_description().bitwise_repeatable = false;
  const VerifyResult result = verified(implementation);
  EXPECT_TRUE(result.passed()) << result.reason;
  for (const Check& check : result.checks) {
    const bool spared = check.name != "errors" && check.name != "continuation";
    EXPECT_EQ(check.result, spared ? Check::Result::not_applicable : Check::Result::passed)
        << check.name;
  }
}

TEST(Verify, FindsBitsThatDependOnTheBatch) {
  expect_failure(
      [](const Problem& p, const GatedDeltaArguments& a, char*) {
        if (p.num_sequences() == 1) nudge(a.output);
      },
      "alone: sequence");
}

TEST(Verify, FindsBitsOfTheLongestSequenceThatDependOnTheBatch) {
  expect_failure(
      [](const Problem& p, const GatedDeltaArguments& a, char*) {
        if (p.num_sequences() == 1 && p.total_tokens() == 40) nudge(a.output);
      },
      "alone: sequence 0 of the batch");
}

TEST(Verify, FindsDuplicatesThatDiffer) {
  expect_failure(
      [](const Problem& p, const GatedDeltaArguments& a, char*) {
        if (p.num_sequences() == 3) nudge(a.output);  // the batch {shortest, longest, shortest}
      },
      "duplicates: output differs");
}

// A kernel that starts every call from zeros is right as long as nobody hands it a state.
TEST(Verify, FindsAStateThatIsNotCarriedOn) {
  Tampering implementation([](const Problem& p, const GatedDeltaArguments& a, char*) {
    if (p.initial_state == InitialState::absent) return;
    float* output = static_cast<float*>(a.output);
    for (std::int64_t i = 0; i < output_count(p); ++i) output[i] *= 1.001f;
  });
  const std::string problem = "gated_delta:heads=1/2,dim=16x8,seq=1x40+1x9,dtype=f32,gates=mid";
  const VerifyResult result = verified(implementation, problem);
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_EQ(result.reason.rfind("continuation:", 0), 0u) << result.reason;
}

VerifyOptions with_all_invariances() {
  VerifyOptions options = VerifyOptions::all_invariances();
  options.every_split = options.token_by_token = true;
  return options;
}

TEST(VerifyInvariances, PassAnUntamperedRunOfEveryOperation) {
  const auto device = open_device("cpu");
  for (const char* text :
       {kProblem, "gated_delta:heads=1/2,dim=8,seq=1x12+1x3+1x0,h0=normal,output_slots=other",
        "causal_conv1d:heads=1/2,dim=8,seq=1x20+1x9+1x0+1x21,dtype=bf16,slots=padding",
        "gated_delta_layer:heads=1/2,dim=8,seq=1x20+1x9+1x0+1x2,dtype=f32,norm=1,gates=mid"}) {
    const Problem problem = Problem::parse(text);
    const bool conv = problem.operation == causal_conv1d_operation();
    const VerifyResult result =
        verify(find_implementation(problem.operation, conv ? "cpu/direct" : "cpu/recurrent"),
               generate_case(problem), *device, with_all_invariances());
    EXPECT_TRUE(result.passed()) << text << ": " << result.reason;
    for (const Check& check : result.checks) {
      // The CPU has no graphs, none of these has phases, and only the layer writes on request.
      const bool layer = problem.operation == gated_delta_layer_operation();
      const bool none = check.name == "replay" || check.name == "phases" ||
                        (check.name == "on_request" && !layer);
      const auto expected = none ? Check::Result::not_applicable : Check::Result::passed;
      EXPECT_EQ(check.result, expected) << text << ": " << check.name << ": " << check.detail;
    }
  }
}

void expect_failed_check(const Tampering::Tamper& tamper, const std::string& name,
                         const std::string& words) {
  const VerifyResult result = verified(Tampering(tamper), kProblem, with_all_invariances());
  for (const Check& check : result.checks) {
    if (check.name != name) continue;
    EXPECT_EQ(check.result, Check::Result::failed) << name;
    EXPECT_NE(check.detail.find(words), std::string::npos) << check.detail;
    return;
  }
  ADD_FAILURE() << name << " was not checked";
}

TEST(VerifyInvariances, FindAWriteBehindTheLastToken) {
  expect_failed_check(
      [](const Problem& p, const GatedDeltaArguments& a, char*) {
        const bool room = a.sequence_offsets[p.num_sequences()] < p.total_tokens();
        if (room) static_cast<float*>(a.output)[output_count(p) - 1] = 0.0f;
      },
      "refilled", "past the 57 of the sequences");
}

// Wrong after one cut only: halves do not meet it.
TEST(VerifyInvariances, FindTheOneOffsetAtWhichACutIsWrong) {
  const Tampering::Tamper tamper = [](const Problem& p, const GatedDeltaArguments& a, char*) {
    const auto& lengths = p.sequences.lengths;  // 40+9+0+21, less 37 of each
    if (lengths[0] != 3 || lengths[1] != 0) return;
    for (std::int64_t i = 0; i < output_count(p); ++i) static_cast<float*>(a.output)[i] *= 1.001f;
  };
  expect_failed_check(tamper, "every_split", "after 37 tokens");
  EXPECT_TRUE(verified(Tampering(tamper)).passed());
}

// The last cut is before the last token, or after 64: a call of no tokens tells nothing more.
TEST(VerifyInvariances, CutsUpToTheLastTokenOrTheSixtyFourth) {
  VerifyOptions options;
  options.every_split = true;
  for (const auto& [length, last_two] : {std::pair{6, std::vector<std::int64_t>{5, 1}},
                                         {64, {63, 1}},
                                         {65, {64, 1}},
                                         {70, {64, 6}}}) {
    std::vector<std::int64_t> lengths;  // of the calls in order
    const Tampering counted([&](const Problem& p, const GatedDeltaArguments&, char*) {
      lengths.push_back(p.sequences.longest());
    });
    const auto result =
        verified(counted, "gated_delta:heads=1/1,dim=4,seq=" + std::to_string(length), options);
    EXPECT_TRUE(result.passed()) << result.reason;
    ASSERT_GE(lengths.size(), 2u);
    EXPECT_EQ(std::vector(lengths.end() - 2, lengths.end()), last_two) << length;
  }
}

// The CPU with graphs of a kind: a graph is what was enqueued, to be enqueued again.
class DeviceWithGraphs final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  std::function<void()> capture(const std::function<void()>& launch) override { return launch; }
};

TEST(VerifyInvariances, ReplayFindsAPlanThatKeepsTheOffsetsItWasMadeFor) {
  const auto cpu = open_device("cpu");
  DeviceWithGraphs device(*cpu);
  VerifyOptions options;
  options.replay = true;
  const Case inputs = generate_case(Problem::parse("gated_delta:heads=1/2,dim=16,seq=40+9+21"));
  const VerifyResult fresh =
      verify(*testing::make_faulty(testing::Fault::none_recurrent), inputs, device, options);
  EXPECT_TRUE(fresh.passed()) << fresh.reason;
  const VerifyResult stale =
      verify(*testing::make_faulty(testing::Fault::stale_offsets), inputs, device, options);
  EXPECT_EQ(stale.reason.rfind("replay:", 0), 0u) << stale.reason;
}

// cpu/recurrent, whose runs do something else besides.
class Disobedient : public Implementation {
 public:
  using Deed = std::function<void(Device&, void* workspace)>;
  explicit Disobedient(Deed deed)
      : base_(find_implementation(gated_delta_operation(), "cpu/recurrent")),
        deed_(std::move(deed)) {}
  const Description& description() const override { return base_.description(); }
  Support supports(const Problem& problem) const override { return base_.supports(problem); }
  std::int64_t workspace_bytes(const Problem& problem) const override {
    return base_.workspace_bytes(problem) + kWorkspaceBytes;
  }
  std::unique_ptr<Plan> plan(const Problem& problem, const Arguments& arguments,
                             Device& device) const override {
    return std::make_unique<DisobedientPlan>(base_.plan(problem, arguments, device), deed_, device);
  }

 private:
  class DisobedientPlan : public Plan {
   public:
    DisobedientPlan(std::unique_ptr<Plan> base, const Deed& deed, Device& device)
        : base_(std::move(base)),
          deed_(deed),
          device_(device),
          workspace_(device.allocate(kWorkspaceBytes)) {}
    const PlanInfo& info() const override { return base_->info(); }
    void run() override {
      base_->run();
      deed_(device_, workspace_.data());
    }

   private:
    std::unique_ptr<Plan> base_;
    const Deed& deed_;
    Device& device_;
    DeviceBuffer workspace_;
  };

  const Implementation& base_;
  Deed deed_;
};

// A run only enqueues (interface/implementation.h), or no graph could hold it.
TEST(Verify, FindsARunThatDoesMoreThanEnqueue) {
  struct Wrong {
    const char* words;
    Disobedient::Deed deed;
  };
  std::int64_t host = 0;
  const std::vector<Wrong> all = {
      {"allocated 64 bytes", [](Device& device, void*) { device.allocate(64); }},
      {"waited for the device", [](Device& device, void*) { device.synchronize(); }},
      {"waited for the device", [](Device& device, void* at) { device.fingerprint(at, 8); }},
      {"copied 8 bytes to the host",
       [&](Device& device, void* at) { device.download(&host, at, sizeof(host)); }},
      {"copied 8 bytes from the host",
       [&](Device& device, void* at) { device.upload(at, &host, sizeof(host)); }},
  };
  const auto device = open_device("cpu");
  const Case inputs = generate_case(Problem::parse(kProblem));
  EXPECT_TRUE(verify(Disobedient([](Device&, void*) {}), inputs, *device).passed());
  for (const Wrong& wrong : all) {
    const VerifyResult result = verify(Disobedient(wrong.deed), inputs, *device);
    EXPECT_EQ(result.verdict, Verdict::failed) << wrong.words;
    EXPECT_NE(result.reason.find(wrong.words), std::string::npos) << result.reason;
  }
}

TEST(Verify, FindsARunThatFreesMemory) {
  // Allocated in planning, freed by the first run.
  class Frees : public Plan {
   public:
    Frees(std::unique_ptr<Plan> base, Device& device)
        : base_(std::move(base)), workspace_(device.allocate(kWorkspaceBytes)) {}
    const PlanInfo& info() const override { return base_->info(); }
    void run() override {
      base_->run();
      workspace_ = DeviceBuffer();
    }

   private:
    std::unique_ptr<Plan> base_;
    DeviceBuffer workspace_;
  };
  const auto cpu = open_device("cpu");
  const Case inputs = generate_case(Problem::parse(kProblem));
  const DeviceCase on_device(inputs, *cpu);
  GuardedDevice guarded(*cpu);
  Frees plan(find_implementation(gated_delta_operation(), "cpu/recurrent")
                 .plan(inputs.problem, on_device.arguments(), guarded),
             guarded);
  try {
    guarded.enqueue_only([&] { plan.run(); });
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("freed memory"), std::string::npos) << error.what();
  }
}

TEST(Verify, SaysWhatALargeProblemNeedsBeforeAllocating) {
  const auto device = open_device("cpu");
  const Problem problem = Problem::parse("gated_delta:heads=64/64,dim=128,seq=1000x1000000");
  try {
    require_memory(problem, 0, *device);
    FAIL() << "no error was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
    const std::string message = error.what();
    EXPECT_NE(message.find(std::to_string(device_bytes_needed(problem))), std::string::npos)
        << message;
    EXPECT_NE(message.find("free"), std::string::npos) << message;
  }
}

TEST(Verify, SamplesLargeProblemsAndSaysSo) {
  VerifyOptions options;
  options.most_reference_flops = 1e5;
  const Case inputs = generate_case(Problem::parse("gated_delta:heads=4/8,dim=16,seq=4x50"));
  const CheckedReference reference(inputs, options);
  EXPECT_NE(reference.coverage().find("random sample of"), std::string::npos)
      << reference.coverage();
  const auto device = open_device("cpu");
  const VerifyResult result = verify(find_implementation(gated_delta_operation(), "cpu/naive"),
                                     reference, *device, options);
  EXPECT_TRUE(result.passed()) << result.reason;
  EXPECT_LT(result.report.checked_pairs, result.report.total_pairs);
  EXPECT_GT(result.report.checked_pairs, 0);
  // A call of as many operations as are allowed is no large one.
  options.most_reference_flops = reference::evaluation_flops(inputs.problem);
  EXPECT_EQ(CheckedReference(inputs, options).coverage(), "all 32 pairs");
}

TEST(Verify, UnsupportedProblemsAreNeitherPassedNorFailed) {
  const Case conv = generate_case(Problem::parse("causal_conv1d:heads=1/2,dim=8,seq=9"));
  const auto device = open_device("cpu");
  const VerifyResult result =
      verify(find_implementation(gated_delta_operation(), "cpu/naive"), conv, *device);
  EXPECT_EQ(result.verdict, Verdict::unsupported);
  EXPECT_NE(result.reason.find("does gated_delta, not causal_conv1d"), std::string::npos)
      << result.reason;
}

}  // namespace
}  // namespace gdn
