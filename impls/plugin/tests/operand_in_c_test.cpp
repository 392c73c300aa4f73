// What callers from C are told of a problem's arrays.
#include "plugin/operand_in_c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gdn {
namespace {

// "initial_state>final_state in place f32 [pool_rows=1, ...] r w", "o" where it may be left out.
std::string text_of(const gdnbench_operand& operand) {
  std::string text = operand.name;
  if (std::string(operand.name_after) != operand.name)
    text += ">" + std::string(operand.name_after);
  text += " " + std::string(operand.role) + " " + operand.dtype + " [";
  for (std::int32_t i = 0; i < operand.rank; ++i) {
    text += (i == 0 ? "" : ", ") + std::string(operand.dimensions[i]) + "=" +
            std::to_string(operand.extents[i]);
  }
  text += "]";
  if (operand.is_read != 0) text += " r";
  if (operand.is_written != 0) text += " w";
  if (operand.is_optional != 0) text += " o";
  return text;
}

std::vector<std::string> operands_of(const std::string& problem) {
  const Problem p = Problem::parse(problem);
  std::vector<std::string> operands;
  for (int i = 0; operand_in_c(p, i).name != nullptr; ++i) {
    operands.push_back(text_of(operand_in_c(p, i)));
  }
  return operands;
}

std::string of(const std::string& problem, const std::string& name) {
  for (const std::string& operand : operands_of(problem)) {
    if (operand.rfind(name, 0) == 0) return operand.substr(name.size());
  }
  return "";
}

TEST(OperandInC, HasTheShapeTheTypeAndTheNamesOfAnArray) {
  const std::string problem =
      "gated_delta:heads=1/2,dim=4x6,seq=5+3,dtype=bf16,slots=permuted,h0=normal";
  EXPECT_EQ(of(problem, "q "), "input bf16 [T=8, Hk=1, Dk=4] r");
  EXPECT_EQ(of(problem, "v "), "input bf16 [T=8, Hv=2, Dv=6] r");
  EXPECT_EQ(of(problem, "log_decay "), "input f32 [T=8, Hv=2] r");
  EXPECT_EQ(of(problem, "output "), "output bf16 [T=8, Hv=2, Dv=6] w");
  EXPECT_EQ(of(problem, "slot_index "), "input int64 [N=2] r");
}

// What a call neither reads nor writes, and what it need not show, may be left out; nothing else may.
TEST(OperandInC, IsOptionalWhereACallDoesWithoutIt) {
  const std::string delta = "gated_delta:heads=1/2,dim=4x6,seq=5+3,dtype=f32";
  const std::string layer = "gated_delta_layer:heads=1/2,dim=4x6,seq=5+3,dtype=f32";
  const std::string pool = "initial_state>final_state ";
  struct Expected {
    std::string problem, operand, told;
  };
  const std::vector<Expected> all = {
      {delta + ",h0=normal", pool, " r w"},
      {delta, pool, " w"},
      {delta + ",h0=normal,ht=0", pool, " r"},
      {delta + ",ht=0", pool, " o"},
      {layer, "conv_output ", " w o"},
      {layer, "output ", " w"},
      {"causal_conv1d:channels=5,seq=3", "conv_output ", " w"},
  };
  for (const Expected& expected : all) {
    const std::string told = of(expected.problem, expected.operand);
    EXPECT_EQ(told.substr(told.find(']') + 1), expected.told)
        << expected.problem << ": " << expected.operand << told;
  }
}

}  // namespace
}  // namespace gdn
