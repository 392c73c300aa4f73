// The general code on an operation that has every feature: several outputs, each cut, each unit, a
// token stride, indices of its own, a carrying from the end to the beginning, outputs in a wider type, one of
// integers with scales.
// A right implementation passes every check; each planted fault is rejected by the check named.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "harness/explain/explain.h"
#include "harness/files/case_file.h"
#include "harness/files/outputs_file.h"
#include "harness/operations/generate_case.h"
#include "harness/rows/row.h"
#include "harness/run/batches.h"
#include "harness/tests/every_feature/operation.h"
#include "harness/tests/temporary_folder.h"
#include "harness/verify/verify.h"
#include "interface/error.h"

namespace gdn::testing {
namespace {

using Fault = EveryFeatureFault;

const char* const kProblem =
    "every_feature:heads=2/6,dim=8,seq=20+0+9+1+7,dtype=bf16,slots=padding,pool_rows=9,pool_pad=3,"
    "seed=3";

Case case_of(const std::string& problem = kProblem) {
  register_every_feature();
  return generate_case(Problem::parse(problem));
}

VerifyOptions every_check() {
  VerifyOptions options = VerifyOptions::all_invariances();
  options.every_split = options.token_by_token = true;
  return options;
}

VerifyResult verified(Fault fault, const std::string& problem = kProblem,
                      const VerifyOptions& options = every_check()) {
  const auto device = open_device("cpu");
  return verify(every_feature(fault), case_of(problem), *device, options);
}

TEST(EveryFeature, ARightImplementationPassesEveryCheckThatApplies) {
  const std::set<std::string> not_applicable = {"replay", "on_request", "token_by_token"};
  for (const char* problem :
       {kProblem, "every_feature:heads=1/1,dim=8,seq=20+9,dtype=f32",
        "every_feature:heads=2/2,dim=16,seq=1x70,dtype=f16,state=bf16,slots=permuted"}) {
    const VerifyResult result = verified(Fault::none, problem);
    EXPECT_TRUE(result.passed()) << problem << ": " << result.reason;
    if (problem != std::string(kProblem)) continue;
    for (const Check& check : result.checks) {
      EXPECT_EQ(check.result, not_applicable.count(check.name) > 0 ? Check::Result::not_applicable
                                                                   : Check::Result::passed)
          << check.name << ": " << check.detail;
    }
  }
}

struct Planted {
  Fault fault;
  const char* caught_by;
  const char* words;  // of what the check says
};

class PlantedInEveryFeature : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedInEveryFeature, IsRejectedByItsCheck) {
  const Planted& planted = GetParam();
  const VerifyResult result = verified(planted.fault);
  EXPECT_EQ(result.verdict, Verdict::failed) << kProblem;
  std::string all;
  for (const Check& check : result.checks) {
    if (check.result != Check::Result::failed) continue;
    all += check.name + ": " + check.detail + "\n";
    if (check.name != planted.caught_by) continue;
    EXPECT_NE(check.detail.find(planted.words), std::string::npos) << check.detail;
  }
  EXPECT_NE(("\n" + all).find("\n" + std::string(planted.caught_by) + ":"), std::string::npos)
      << kProblem << "\n"
      << all;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, PlantedInEveryFeature,
    ::testing::Values(Planted{Fault::key_head_of_value, "errors", "z of sequence"},
                      Planted{Fault::last_key_head_zero, "errors", "key head 1"},
                      Planted{Fault::total_of_first_head, "errors", "total of sequence"},
                      Planted{Fault::total_stays, "errors", "total of sequence 0"},
                      Planted{Fault::weight_of_padding, "errors", "d_weight"},
                      Planted{Fault::weight_of_last, "errors", "d_weight"},
                      Planted{Fault::carries_forward, "errors", ""},
                      Planted{Fault::last_not_read, "errors", ""},
                      Planted{Fault::last_without_pull, "continuation", ""},
                      Planted{Fault::last_without_pull, "every_split", "after 1 tokens"},
                      Planted{Fault::pull_not_read, "errors", ""},
                      Planted{Fault::pull_of_next, "errors", ""},
                      Planted{Fault::count_ignored, "errors", "y of sequence"},
                      Planted{Fault::count_of_plan, "refilled", "y of sequence"},
                      Planted{Fault::count_of_first, "errors", "y of sequence"},
                      Planted{Fault::first_in_all_rows, "errors", "d_first: row"},
                      Planted{Fault::first_row_of_sequence, "errors", "d_first"},
                      Planted{Fault::y_in_tokens, "errors", "y of sequence"},
                      Planted{Fault::crossing_in_float16, "errors", "crossing of sequence"},
                      Planted{Fault::stride_ignored, "strided", ""},
                      Planted{Fault::stores_in_walk, "phases", "'walk' wrote d_first"},
                      Planted{Fault::tallies_in_walk, "phases", "'walk' wrote tally"},
                      Planted{Fault::store_reads_x, "phases", "d_first differs"},
                      Planted{Fault::walk_reads_times, "phases", "d_first differs"},
                      Planted{Fault::walk_reads_lift, "phases", "d_first differs"},
                      Planted{Fault::walk_reads_tally, "phases", "tally differs"},
                      Planted{Fault::walk_bounds_times, "phases", "d_first differs"},
                      Planted{Fault::walk_floors_times, "phases", "a second time: d_first"},
                      Planted{Fault::store_of_first_run, "refilled", "sketch of sequence"},
                      Planted{Fault::crossing_shifted, "crossing", "crossing of sequence"},
                      Planted{Fault::y_of_batch, "alone", "y differs"},
                      Planted{Fault::total_of_batch, "alone", "total differs"},
                      Planted{Fault::sketch_scale_of_first_head, "errors", "sketch"},
                      Planted{Fault::sketch_cut_off, "errors", "beyond half a step"},
                      Planted{Fault::sketch_half_filled, "errors", "sketch"},
                      Planted{Fault::sketch_without_times, "continuation", "sketch"},
                      Planted{Fault::sketch_without_times, "every_split", "sketch"},
                      Planted{Fault::sketches_in_walk, "phases", "'walk' wrote sketch"}),
    [](const auto& tested) {
      return "Fault" + std::to_string(static_cast<int>(tested.param.fault)) + "_" +
             tested.param.caught_by;
    });

// What two terms leave of each other is far below the terms: judged by itself no kernel would do.
TEST(EveryFeature, ErrorsOfDifferencesAreRelativeToTheirTerms) {
  const Case inputs = case_of("every_feature:heads=1/1,dim=8,seq=40,dtype=f32");
  const auto device = open_device("cpu");
  const CheckedReference reference(inputs);
  const Outputs outputs = execute(every_feature(Fault::none), inputs, *device);
  const auto report = reference.compare(outputs);
  double terms = 0, errors = 0;
  for (std::size_t i = 0; i < outputs["crossing"].size(); ++i) {
    const double off = outputs["crossing"][i] - reference.wide()["crossing"][i];
    errors += off * off;
    terms += reference.wide()["crossing_terms"][i] * reference.wide()["crossing_terms"][i];
  }
  EXPECT_NEAR(report["crossing"].worst().error.relative_l2, std::sqrt(errors / terms), 1e-12);
}

TEST(EveryFeature, ASampleTakesWholeKeyHeadsAndSaysWhatItDoesNotJudge) {
  VerifyOptions options;
  options.most_reference_flops = 2000;
  const Case inputs = case_of("every_feature:heads=2/6,dim=8,seq=9+9+9+9,dtype=f32");
  const CheckedReference reference(inputs, options);
  const auto& pairs = reference.evaluation().pairs;
  ASSERT_FALSE(pairs.empty());
  EXPECT_LT(pairs.size(), 24u);
  EXPECT_EQ(pairs.size() % 3, 0u) << "three value heads read a key head";
  EXPECT_NE(reference.coverage().find("d_weight, which is over the whole batch, is not judged"),
            std::string::npos)
      << reference.coverage();
  const auto device = open_device("cpu");
  const auto report = reference.compare(execute(every_feature(Fault::none), inputs, *device));
  EXPECT_EQ(reference::violation(report, report.limits), "");
  EXPECT_EQ(report.find("d_weight"), nullptr);
  EXPECT_EQ(report["z"].units.size(), pairs.size() / 3);
  EXPECT_EQ(report["total"].units.size(), pairs.size());
  const auto wrong =
      reference.compare(execute(every_feature(Fault::last_key_head_zero), inputs, *device));
  EXPECT_NE(reference::violation(wrong, wrong.limits).find("z of sequence"), std::string::npos);
}

TEST(EveryFeature, CaseFilesKeepIndicesOfItsOwnAndPoolsThatAreInputs) {
  const TemporaryFolder folder;
  const Case c = case_of();
  write_case(c, folder.file("case.h5"));
  const Case read = read_case(folder.file("case.h5"));
  EXPECT_EQ(read.other_indices["count"], c.other_indices["count"]);
  for (const char* name : {"x", "weight", "pull"}) EXPECT_EQ(read[name], c[name]) << name;
  EXPECT_EQ(read.problem.num_pool_rows(), 9);
  Case wrong = c;
  wrong.other_indices["count"][2] = 10;
  try {
    validate(wrong);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "count: value 10 at index 2, expected 0 .. the tokens of the sequence");
  }
  const auto device = open_device("cpu");
  const Outputs outputs = execute(every_feature(Fault::none), c, *device);
  write_outputs(c, outputs, {}, folder.file("outputs.h5"));
  EXPECT_TRUE(
      verify_outputs(CheckedReference(c), read_outputs(c, folder.file("outputs.h5")).narrowed())
          .passed());
}

TEST(EveryFeature, ExplainNamesTheOutputAndTheUnitThatAreWrong) {
  const Case inputs = case_of();
  const auto device = open_device("cpu");
  const CheckedReference reference(inputs);
  const auto explained = [&](Fault fault) {
    return explain(reference, execute(every_feature(fault), inputs, *device), 0);
  };
  const auto total = explained(Fault::total_stays);
  ASSERT_EQ(total.anatomy.outputs.size(), 1u);
  EXPECT_EQ(total.anatomy.outputs[0].name(), "total");
  const auto z = explained(Fault::last_key_head_zero);
  ASSERT_EQ(z.anatomy.outputs.size(), 1u);
  EXPECT_EQ(z.anatomy.outputs[0].name(), "z");
  EXPECT_NE(z.anatomy.outputs[0].place().find("key head 1"), std::string::npos)
      << z.anatomy.outputs[0].place();
  EXPECT_TRUE(explained(Fault::none).passed());
}

}  // namespace
}  // namespace gdn::testing
