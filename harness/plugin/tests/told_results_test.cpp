// What one process tells another arrives whole, and what is no message is refused.
#include "harness/plugin/told_results.h"

#include <gtest/gtest.h>

#include "harness/operations/generate_case.h"
#include "interface/error.h"

namespace gdn {
namespace {

Row filled_row() {
  Row row;
  describe_problem(Problem::parse("gated_delta:heads=2/4,dim=16,seq=5,dtype=f32,gates=mid"), row);
  describe_build(row);
  row.implementation = "cpu/mine";
  row.plugin_hash = "abc";
  row.status = row_status::kOk;
  row.time_ms = 1.5;
  row.errors = {{"output", ErrorMetric::relative_l2, RowError::kWhole, 0.25},
                {"output", ErrorMetric::relative_l2, 64, 0.5}};
  return row;
}

TEST(ToldRow, HasEveryColumn) {
  const Row row = filled_row();
  Message message;
  put_row(message, row, {{1.5, 1000}, {1.6, 900}});
  std::vector<TimeSample> samples;
  const Row told = get_row(message, samples);
  for (const RowColumn& column : columns_of({row})) {
    EXPECT_EQ(column_text(told, column), column_text(row, column)) << column.name;
  }
  EXPECT_EQ(told.errors, row.errors);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[1].clock_mhz, 900);
}

TEST(ToldResult, IsTheVerdictWithItsErrorsAndChecks) {
  const Case inputs = generate_case(
      Problem::parse("gated_delta:heads=1/2,dim=8,seq=70+3,dtype=f32,h0=normal,gates=mid"));
  const auto device = open_device("cpu");
  const Implementation& implementation = find_implementation(inputs.problem.operation, "cpu/naive");
  const VerifyResult result = verify(implementation, inputs, *device);
  Message message;
  put_result(message, result);
  const VerifyResult told = get_result(message, inputs.problem.operation);
  EXPECT_EQ(told.verdict, Verdict::passed);
  ASSERT_EQ(told.checks.size(), result.checks.size());
  EXPECT_EQ(told.checks.back().name, result.checks.back().name);
  ASSERT_EQ(told.report.outputs.size(), 2u);
  EXPECT_EQ(told.report["final_state"].worst().error.relative_l2,
            result.report["final_state"].worst().error.relative_l2);
  EXPECT_EQ(told.report.limits.size(), result.report.limits.size());
  EXPECT_EQ(reference::violation(told.report, told.report.limits), "");
  EXPECT_EQ(told.report.conditioning.readouts, result.report.conditioning.readouts);
}

// A plug-in may write over what its process answers with.
TEST(Message, OfAnyShorterLengthIsRefused) {
  Message whole;
  put_row(whole, filled_row(), {{1.5, 1000}});
  for (std::size_t bytes = 0; bytes < whole.bytes().size(); ++bytes) {
    Message cut(whole.bytes().substr(0, bytes));
    std::vector<TimeSample> samples;
    EXPECT_THROW(get_row(cut, samples), Error) << bytes << " bytes";
  }
}

}  // namespace
}  // namespace gdn
