// data/hazards.tsv, run: every hazard's planted fault is rejected by the check that is said to
// catch it, and the same form without the fault passes the same problem.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>

#include "harness/operations/generate_case.h"
#include "harness/tests/planted_faults/faulty_implementation.h"
#include "harness/tests/planted_faults/hazard_table.h"
#include "harness/verify/verify.h"
#include "interface/error.h"

namespace gdn::testing {
namespace {

VerifyOptions every_check() {
  VerifyOptions options = VerifyOptions::all_invariances();
  options.token_by_token = true;
  return options;
}

class PlantedHazard : public ::testing::TestWithParam<Hazard> {};

TEST_P(PlantedHazard, IsRejectedByItsCheckAndItsTwinAccepted) {
  const Hazard& hazard = GetParam();
  const Fault fault = fault_named(hazard.fault);
  const Case inputs = generate_case(Problem::parse(hazard.problem));
  const auto device = open_device("cpu");
  const VerifyOptions options = every_check();

  const VerifyResult twin = verify(*make_faulty(twin_of(fault)), inputs, *device, options);
  EXPECT_TRUE(twin.passed()) << hazard.problem << ": without the fault: " << twin.reason;

  const VerifyResult faulty = verify(*make_faulty(fault), inputs, *device, options);
  EXPECT_EQ(faulty.verdict, Verdict::failed) << hazard.problem;
  std::string caught_by;
  for (const Check& check : faulty.checks) {
    if (check.result == Check::Result::failed) caught_by += " " + check.name;
  }
  EXPECT_NE((caught_by + " ").find(" " + hazard.caught_by + " "), std::string::npos)
      << hazard.problem << ": caught by" << caught_by << ", not by " << hazard.caught_by;
}

INSTANTIATE_TEST_SUITE_P(Hazards, PlantedHazard, ::testing::ValuesIn(planted_hazards()),
                         [](const auto& parameter) { return parameter.param.test_name(); });

// Every test of a binary, as "Suite.Test".
std::set<std::string> tests_of(const std::string& binary) {
  std::set<std::string> tests;
  const std::string command = GDN_BINARY_DIR "/" + binary + " --gtest_list_tests";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return tests;
  std::string suite;
  char line[1024];
  while (fgets(line, sizeof(line), pipe) != nullptr) {
    std::string text = line;
    text = text.substr(0, text.find("  #"));
    text.erase(text.find_last_not_of(" \n") + 1);
    if (text.rfind("  ", 0) == 0) {
      tests.insert(suite + text.substr(2));
    } else {
      suite = text;
    }
  }
  pclose(pipe);
  return tests;
}

// Hazards that no kernel gets to see, and those of other operations: their test must exist.
TEST(Hazards, NameTestsThatExist) {
  std::map<std::string, std::set<std::string>> known;
  for (const Hazard& hazard : read_hazards()) {
    if (hazard.is_planted()) continue;
    const auto colon = hazard.problem.find(':');
    ASSERT_NE(colon, std::string::npos) << hazard.hazard;
    const std::string binary = hazard.problem.substr(0, colon);
    if (known.count(binary) == 0) known[binary] = tests_of(binary);
    EXPECT_EQ(known[binary].count(hazard.problem.substr(colon + 1)), 1u)
        << "line " << hazard.line << ": " << hazard.problem << " does not exist";
  }
}

// A fault in the catalogue that no hazard names would be caught by nothing here.
TEST(Hazards, UseEveryPlantedFault) {
  std::set<std::string> used;
  for (const Hazard& hazard : read_hazards()) used.insert(hazard.fault);
  for (const Fault fault : all_faults())
    EXPECT_EQ(used.count(name_of(fault)), 1u) << name_of(fault);
}

}  // namespace
}  // namespace gdn::testing
