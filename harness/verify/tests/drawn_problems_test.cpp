// Problems that are drawn: every value of every field comes, the same seed draws the same, and what fails is told as the
// least that does.
#include "harness/verify/drawn_problems.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "harness/verify/shrink.h"
#include "harness/verify/verification_run.h"
#include "interface/error.h"
#include "reference/reference.h"

namespace gdn {
namespace {

std::vector<std::string> texts_of(const std::vector<SuiteProblem>& problems) {
  std::vector<std::string> texts;
  for (const SuiteProblem& entry : problems) texts.push_back(entry.problem.to_string());
  return texts;
}

std::vector<SuiteProblem> drawn(std::int64_t count, std::uint64_t seed,
                                std::vector<Operation> operations = {}) {
  DrawnProblems wanted;
  wanted.operations = std::move(operations);
  wanted.count = count;
  wanted.seed = seed;
  return draw_problems(wanted);
}

// "state layout: kv|vk" lists what the field may be.
std::vector<std::string> listed_values(const ProblemField& field) {
  const std::size_t colon = field.help.rfind(": ");
  if (colon == std::string::npos || field.help.find('|') == std::string::npos) return {};
  std::vector<std::string> values;
  std::istringstream list(field.help.substr(colon + 2));
  for (std::string value; std::getline(list, value, '|');) values.push_back(value);
  return values;
}

TEST(DrawnProblems, AreOfEveryValueThatAFieldLists) {
  const std::set<std::string> numbers_of_their_own = {"seq", "channels", "seed", "case"};
  for (const ProblemField& field : problem_fields()) {
    if (numbers_of_their_own.count(field.key) > 0) continue;
    const auto found = drawn_values().find(field.key);
    ASSERT_NE(found, drawn_values().end()) << field.key << " is never drawn";
    for (const std::string& value : listed_values(field)) {
      if (value == "LOW..HIGH" || value == "NUMBER") continue;
      EXPECT_NE(std::find(found->second.begin(), found->second.end(), value), found->second.end())
          << field.key << "=" << value << " is never drawn";
    }
  }
}

TEST(DrawnProblems, SetEveryFieldOfEveryOperationAndKeepWithinWhatIsAsked) {
  std::map<std::string, std::set<std::string>> values;
  std::set<std::string> operations_seen;
  const std::vector<SuiteProblem> problems = drawn(700, 1);
  EXPECT_EQ(problems.size(), 700u);
  for (const SuiteProblem& entry : problems) {
    const Problem& p = entry.problem;
    EXPECT_TRUE(Problem::parse(p.to_string()) == p) << p.to_string();
    EXPECT_LE(reference::evaluation_flops(p), 2e7) << p.to_string();
    operations_seen.insert(p.operation->name);
    for (const std::string& key : p.operation->fields)
      values[key].insert(problem_field(key).get(p));
  }
  EXPECT_EQ(operations_seen.size(), operations().size());
  for (const auto& [key, seen] : values) {
    if (drawn_values().count(key) == 0) continue;
    EXPECT_GT(seen.size(), 1u) << key << " is always " << *seen.begin();
  }
}

TEST(DrawnProblems, OfASeedAreTheSameWhateverTheCountAndOfAnotherOthers) {
  const std::vector<std::string> few = texts_of(drawn(20, 7)), more = texts_of(drawn(60, 7)),
                                 others = texts_of(drawn(20, 8));
  EXPECT_EQ(few, std::vector<std::string>(more.begin(), more.begin() + 20));
  EXPECT_EQ(std::set<std::string>(more.begin(), more.end()).size(), 60u);
  std::vector<std::string> of_both;
  std::set_intersection(few.begin(), few.end(), others.begin(), others.end(),
                        std::back_inserter(of_both));
  EXPECT_TRUE(of_both.empty());
}

TEST(DrawnProblems, AreOfTheOperationsAskedFor) {
  for (const Operation& operation : operations()) {
    const std::vector<SuiteProblem> problems = drawn(10, 3, {operation});
    EXPECT_EQ(problems.size(), 10u) << operation->name;
    for (const SuiteProblem& entry : problems)
      EXPECT_EQ(entry.problem.operation->name, operation->name);
  }
}

TEST(Shrunk, IsTheLeastProblemThatStillFails) {
  const Problem found = Problem::parse(
      "gated_delta:heads=2/8,dim=96x192,seq=3+200+0+77,dtype=bf16,state=f16,h0=normal,"
      "layout=vk,slots=permuted,norm=1,gates=strong,seed=99");
  int asked = 0;
  const Problem least = shrunk(found, [&](const Problem& p) {
    ++asked;
    return p.state_layout == StateLayout::vk && p.sequences.longest() >= 70 && p.key_head_dim > 16;
  });
  EXPECT_EQ(least.to_string(),
            Problem::parse("gated_delta:heads=1/1,dim=32x8,seq=70,dtype=bf16,layout=vk,seed=99")
                .to_string());
  EXPECT_LE(asked, 300);
}

TEST(Shrunk, KeepsWhatFailsAloneAndAsksNoMoreThanItMay) {
  const Problem found =
      Problem::parse("causal_conv1d:heads=1/2,dim=16,seq=40+40,dtype=f32,width=3,bias=1");
  EXPECT_TRUE(shrunk(found, [](const Problem&) { return false; }) == found);
  int asked = 0;
  shrunk(
      found,
      [&](const Problem&) {
        ++asked;
        return false;
      },
      5);
  EXPECT_LE(asked, 5);
}

// What the first drawn problems found: rings are as long as the longest sequence where the problem asks for fewer
// places, and stay so where a check cuts that sequence.
TEST(Rings, ShorterThanASequenceAreCutAtTheirPlaces) {
  VerificationSpec spec;
  for (int seed = 1; seed <= 6; ++seed)
    spec.problems.push_back({Problem::parse("gated_delta_ring:heads=1/2,dim=8,seq=19+3,dtype=bf16,"
                                            "ring=5,seed=" +
                                            std::to_string(seed)),
                             "-", "-"});
  spec.implementations = {"cpu/naive"};
  spec.device = "cpu";
  int verified_problems = 0;
  VerificationRun(spec, {}).run([&](const VerifiedProblem& verified) {
    EXPECT_EQ(verified.result.verdict, Verdict::passed)
        << verified.problem.to_string() << ": " << verified.result.reason;
    ++verified_problems;
  });
  EXPECT_EQ(verified_problems, 6);
}

}  // namespace
}  // namespace gdn
