// Error baselines: growth is caught, a bad baseline cannot be stored, nothing goes missing unseen.
#include "harness/sweep/baseline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "harness/rows/row_store.h"
#include "harness/sweep/sweep.h"
#include "harness/tests/temporary_folder.h"
#include "harness/verify/suites.h"
#include "interface/error.h"
#include "interface/select.h"

namespace gdn {
namespace {

Row error_row(const std::string& implementation, double output, double final_state) {
  Row row;
  describe_problem(Problem::parse("gated_delta:heads=1/1,dim=64,seq=1x200,dtype=bf16"), row);
  row.implementation = implementation;
  row.mode = kVerifyMode;
  row.status = row_status::kOk;
  row.errors = {{"output", ErrorMetric::relative_l2, RowError::kWhole, output},
                {"final_state", ErrorMetric::relative_l2, RowError::kWhole, final_state}};
  return row;
}

std::string findings_text(const std::vector<Row>& stored, const std::vector<Row>& current,
                          const BaselineLimits& limits = {}) {
  std::string text;
  for (const auto& finding : compare_baseline(stored, current, limits)) {
    text += finding.implementation + " on " + finding.problem + ": " + finding.what + "\n";
  }
  return text;
}

TEST(Baseline, SmallerAndEqualErrorsPass) {
  const std::vector<Row> stored = {error_row("cpu/a", 2e-3, 1e-6)};
  EXPECT_EQ(findings_text(stored, stored), "");
  EXPECT_EQ(findings_text(stored, {error_row("cpu/a", 1e-3, 1e-7)}), "");
  EXPECT_EQ(findings_text(stored, {error_row("cpu/a", 4.9e-3, 2.4e-6)}), "");
}

TEST(Baseline, GrowthOfEitherErrorIsCaught) {
  const std::vector<Row> stored = {error_row("cpu/a", 2e-3, 1e-6)};
  EXPECT_NE(findings_text(stored, {error_row("cpu/a", 5.1e-3, 1e-6)}).find("output error"),
            std::string::npos);
  EXPECT_NE(findings_text(stored, {error_row("cpu/a", 2e-3, 2.6e-6)}).find("final_state error"),
            std::string::npos);
  EXPECT_EQ(findings_text(stored, {error_row("cpu/a", 5.1e-3, 1e-6)}, {3.0}), "");
}

TEST(Baseline, NanNeverPasses) {
  const std::vector<Row> stored = {error_row("cpu/a", 2e-3, 1e-6)};
  EXPECT_NE(findings_text(stored, {error_row("cpu/a", std::nan(""), 1e-6)}), "");
}

TEST(Baseline, AnErrorThatIsNoLongerToldNeverPasses) {
  const std::vector<Row> stored = {error_row("cpu/a", 2e-3, 1e-6)};
  Row silent = stored[0];
  silent.errors.pop_back();
  EXPECT_NE(findings_text(stored, {silent}).find("final_state error"), std::string::npos);
  EXPECT_NE(findings_text({silent}, stored).find("final_state error"), std::string::npos)
      << "nor one that nothing is stored of";
}

// A quarter of a rounding of what the output is stored in: that of the problem's tokens or states,
// of any output of any operation.
TEST(Baseline, WhatIsFarBelowOneRoundingIsTheOutputsOwn) {
  Row row;
  describe_problem(Problem::parse("gated_delta_layer:heads=1/1,dim=8,seq=9,dtype=bf16,norm=1"),
                   row);
  row.implementation = "cpu/a";
  row.mode = kVerifyMode;
  row.status = row_status::kOk;
  for (const char* output : {"output", "final_state", "conv_output", "conv_state"}) {
    row.errors = {{output, ErrorMetric::relative_l2, RowError::kWhole, 0}};
    const std::vector<Row> stored = {row};
    const bool in_bfloat16 =
        std::string(output) == "output" || std::string(output) == "conv_output";
    const double roundoff = unit_roundoff(in_bfloat16 ? DType::bfloat16 : DType::float32);
    row.errors[0].value = 0.24 * roundoff;
    EXPECT_EQ(findings_text(stored, {row}), "") << output;
    row.errors[0].value = 0.26 * roundoff;
    EXPECT_NE(findings_text(stored, {row}).find(output), std::string::npos) << output;
  }
}

TEST(Baseline, ErrorsFarBelowOneRoundingMayGrow) {
  // State in float32: a quarter of its unit roundoff is 1.5e-8.
  const std::vector<Row> stored = {error_row("cpu/a", 2e-3, 0)};
  EXPECT_EQ(findings_text(stored, {error_row("cpu/a", 2e-3, 1e-8)}), "");
  EXPECT_NE(findings_text(stored, {error_row("cpu/a", 2e-3, 1e-7)}), "");
}

TEST(Baseline, NothingGoesMissingOrComesUnseen) {
  const std::vector<Row> a = {error_row("cpu/a", 1e-3, 1e-6)};
  const std::vector<Row> both = {error_row("cpu/a", 1e-3, 1e-6), error_row("cpu/b", 1e-3, 1e-6)};
  EXPECT_NE(findings_text(both, a).find("gone"), std::string::npos);
  EXPECT_NE(findings_text(a, both).find("nothing is stored"), std::string::npos);
}

TEST(Baseline, RowsThatFailTheAbsoluteLimitsFailWhateverIsStored) {
  Row bad = error_row("cpu/a", 1e-3, 1e-6);
  bad.status = row_status::kFailed;
  bad.reason = "output: above the limit";
  EXPECT_NE(findings_text({error_row("cpu/a", 1, 1)}, {bad}).find("above the limit"),
            std::string::npos);
}

TEST(Baseline, TheWorstFindingComesFirstInEveryGroup) {
  const auto on = [](const std::string& implementation, const std::string& problem, double error) {
    Row row = error_row(implementation, error, 1e-6);
    describe_problem(Problem::parse(problem), row);
    return row;
  };
  const std::string a = "gated_delta:heads=1/1,dim=64,seq=1x200,dtype=bf16";
  const std::string b = "gated_delta:heads=1/1,dim=64,seq=1x300,dtype=bf16";
  const std::string other = "gated_rms_norm:heads=1/1,dim=64,seq=1x200,dtype=bf16";
  const std::vector<Row> stored = {on("cpu/x", a, 1e-3),     on("cpu/x", b, 1e-3),
                                   on("cpu/y", a, 1e-3),     on("cpu/y", b, 1e-3),
                                   on("cpu/x", other, 1e-3), on("cpu/z", a, 1e-3)};
  // An error that grew little, one that grew much, one that is NaN; of cpu/z nothing is left.
  std::vector<Row> now = {on("cpu/x", a, 4e-3),
                          on("cpu/x", b, 8e-2),
                          on("cpu/y", a, 2e-2),
                          on("cpu/y", b, 1e-3),
                          on("cpu/x", other, std::nan("")),
                          on("cpu/new", a, 1e-3)};
  const auto groups = worst_first(compare_baseline(stored, now));
  std::vector<std::string> order;
  for (const BaselineFindings& group : groups) {
    for (const BaselineFinding& finding : group.findings) {
      EXPECT_EQ(finding.implementation, group.implementation);
      EXPECT_EQ(finding.operation, group.operation);
      order.push_back(finding.implementation + " " + finding.problem);
    }
  }
  const auto text = [](const std::string& problem) { return Problem::parse(problem).to_string(); };
  EXPECT_EQ(order, (std::vector<std::string>{"cpu/x " + text(other), "cpu/x " + text(b),
                                             "cpu/x " + text(a), "cpu/y " + text(a),
                                             "cpu/z " + text(a), "cpu/new " + text(a)}));
  ASSERT_EQ(groups.size(), 5u);
  const GrownError& worst = groups[1].findings[0].error.value();
  EXPECT_EQ(worst.output, "output");
  EXPECT_EQ(worst.stored, 1e-3);
  EXPECT_EQ(worst.now, 8e-2);
  EXPECT_DOUBLE_EQ(worst.allowed, 2.5e-3);
  EXPECT_DOUBLE_EQ(worst.times_allowed(), 32);
}

TEST(Baseline, ABadBaselineCannotBeStored) {
  const TemporaryFolder folder;
  const std::string path = folder.file("baseline.h5");
  store_baseline(path, {error_row("cpu/a", 1e-3, 1e-6)});
  Row bad = error_row("cpu/b", 0.5, 0.5);
  bad.status = row_status::kFailed;
  bad.reason = "output: above the limit";
  EXPECT_THROW(store_baseline(path, {error_row("cpu/a", 1e-4, 1e-6), bad}), Error);
  EXPECT_THROW(store_baseline(path, {}), Error);
  const auto kept = read_rows(path).rows;
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].error("output", ErrorMetric::relative_l2), 1e-3)
      << "what was stored before is untouched";
}

TEST(Baseline, DefaultProblemsReachThreeChunksAndEveryOperation) {
  std::set<Operation> operations;
  std::set<DType> dtypes;
  for (const Problem& problem : baseline_problems(find_backend("cuda-emulated"))) {
    operations.insert(problem.operation);
    dtypes.insert(problem.token_dtype);
    EXPECT_LE(problem.total_tokens(), 350) << problem.to_string() << ": keep the check quick";
  }
  EXPECT_EQ(operations.size(), gdn::operations().size());
  EXPECT_EQ(dtypes.size(), 3u);
}

TEST(Baseline, HoldsTheSuiteQuickAndOnTheCpuASampleOfStress) {
  const auto holds = [](const std::vector<Problem>& problems, const std::string& suite) {
    std::int64_t count = 0;
    for (const SuiteProblem& entry : find_suite(suite).problems) {
      count += std::count(problems.begin(), problems.end(), entry.problem);
    }
    return count;
  };
  const auto quick = static_cast<std::int64_t>(find_suite("quick").problems.size());
  EXPECT_EQ(holds(baseline_problems(find_backend("cpu")), "quick"), quick);
  EXPECT_GE(holds(baseline_problems(find_backend("cpu")), "stress"), 10);
  EXPECT_GE(holds(baseline_problems(find_backend("gfx906-emulator")), "quick"), quick / 3);
  for (const char* backend : {"cpu", "cuda-emulated"}) {
    const std::vector<Problem> problems = baseline_problems(find_backend(backend));
    std::set<std::string> texts;
    for (const Problem& problem : problems) texts.insert(problem.to_string());
    EXPECT_EQ(texts.size(), problems.size()) << backend << ": no problem twice";
  }
}

// What is stored of a backend holds for this build on this machine.
class StoredErrors : public ::testing::TestWithParam<const char*> {};

TEST_P(StoredErrors, Hold) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP()
      << "numbers are the same without sanitizers; verify_quick runs the kernels with them";
#endif
  const std::string backend = GetParam();
  const BackendStatus status = find_backend(backend).status();
  if (!status.available) GTEST_SKIP() << status.detail;
  const auto device = open_device(backend);
  const auto implementations = choose_implementations({}, device->info());
  const auto stored = read_rows(GDN_SOURCE_DIR "/data/baselines/" + backend + ".h5").rows;
  const auto measured =
      measure_errors(baseline_problems(find_backend(backend)), implementations, *device, "");
  EXPECT_EQ(findings_text(stored, measured), "")
      << "after a change meant to alter errors: gdnbench baseline update --device " << backend;
}

INSTANTIATE_TEST_SUITE_P(Backends, StoredErrors,
                         ::testing::Values("cpu", "cuda-emulated", "gfx906-emulator"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace gdn
