// The suites: what they hold, that their files are readable, and what is said of a file that is
// not; known limits, and how one that has gone is noticed.
#include "harness/verify/suites.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/operations/generate_case.h"
#include "harness/problems/problem_table.h"
#include "harness/tests/message_of.h"
#include "harness/verify/known_limits.h"
#include "harness/verify/verification_run.h"
#include "interface/device.h"
#include "interface/error.h"
#include "interface/implementation.h"

namespace gdn {
namespace {

std::set<std::string> texts_of(const Suite& suite) {
  std::set<std::string> texts;
  for (const SuiteProblem& entry : suite.problems) texts.insert(entry.problem.to_string());
  return texts;
}

TEST(Suites, HoldNoProblemTwiceAndSayWhatEachProtects) {
  for (const std::string& name : suite_names()) {
    const Suite suite = find_suite(name);
    EXPECT_FALSE(suite.problems.empty()) << name;
    EXPECT_EQ(texts_of(suite).size(), suite.problems.size()) << name;
    for (const SuiteProblem& entry : suite.problems) {
      EXPECT_FALSE(entry.protects.empty()) << name << ": " << entry.problem.to_string();
    }
  }
}

TEST(Suites, AMisspeltNameIsRefusedWithTheNearest) {
  for (const std::string& name : suite_names()) {
    const std::string misspelt = name.substr(0, 2) + name.substr(3);
    const std::string message = message_of([&] { find_suite(misspelt); });
    for (const std::string& words : {"suite '" + misspelt + "' is unknown",
                                     "did you mean '" + name + "'?", std::string("quick|full|")}) {
      EXPECT_NE(message.find(words), std::string::npos) << words << " not in " << message;
    }
  }
}

// What a unit's rows of an operand look like: the largest magnitude of each token's row of a head.
struct Rows {
  bool zero = false, small = false, large = false;

  void see(const Operand& operand, const Case& c) {
    const Problem& p = c.problem;
    const std::int64_t per_token = elements_per_token(operand, p);
    std::int64_t heads = 1;
    for (const Dimension& dimension : operand.shape(p)) {
      if (dimension.heads != Heads::none) heads = dimension.size(p);
    }
    const std::int64_t width = per_token / heads;
    if (tokens_are_fastest(operand, p) || width < 8) return;
    const std::vector<float>& values = c[operand.name];
    for (std::int64_t row = 0; row < p.total_tokens() * heads; ++row) {
      float most = 0;
      for (std::int64_t j = 0; j < width; ++j) {
        most = std::max(most, std::fabs(values[static_cast<std::size_t>(row * width + j)]));
      }
      zero |= most == 0;
      small |= most > 0 && most < 0x1p-5f;  // N(0, 1) in eight elements: 2^-4 one time in 10^8
      large |= most > 0x1p5f;
    }
  }
};

// A norm without its eps, a square that overflows, an exponential of a large value: each passes where
// all inputs are N(0, 1). Keys that are not normalised are no longer than 1, but may be zero.
TEST(Suites, TheQuickOneHasEdgesOfEveryOperation) {
  const Suite quick = find_suite("quick");
  for (const Operation operation : operations()) {
    std::map<std::string, Rows> rows;
    bool unlike_dims = false;
    for (const SuiteProblem& entry : quick.problems) {
      const Problem& p = entry.problem;
      if (p.operation != operation) continue;
      unlike_dims |= p.key_head_dim != p.value_head_dim;
      const Case c = generate_case(p);
      for (const Operand& operand : operation->operands) {
        if (has_edges(operand, p)) rows[operand.name].see(operand, c);
      }
    }
    EXPECT_TRUE(unlike_dims) << to_string(operation) << ": Dk and Dv are the same everywhere";
    EXPECT_FALSE(rows.empty()) << to_string(operation);
    for (const auto& [name, seen] : rows) {
      EXPECT_TRUE(seen.zero) << to_string(operation) << ": no row of zeros in " << name;
      EXPECT_TRUE(seen.small) << to_string(operation) << ": no small row in " << name;
      EXPECT_TRUE(seen.large) << to_string(operation) << ": no large row in " << name;
    }
  }
}

// `verify --suite S --op O` has something to verify, whatever they are.
TEST(Suites, HaveProblemsOfEveryOperation) {
  for (const std::string& name : suite_names()) {
    std::set<Operation> held;
    for (const SuiteProblem& entry : find_suite(name).problems)
      held.insert(entry.problem.operation);
    for (const Operation operation : operations()) {
      EXPECT_EQ(held.count(operation), 1u) << name << ": " << to_string(operation);
    }
  }
}

TEST(Suites, FullHoldsTheCasesOfEveryPeer) {
  const Suite full = find_suite("full");
  for (const char* peer :
       {"FLA ", "FlashInfer ", "FlashQLA ", "MAX ", "ggml ", "mlx-native ", "causal-conv1d "}) {
    EXPECT_GT(
        std::count_if(full.problems.begin(), full.problems.end(),
                      [&](const SuiteProblem& entry) { return entry.origin.rfind(peer, 0) == 0; }),
        2)
        << peer;
  }
}

TEST(Suites, NightlyHoldsFullAndStress) {
  const std::set<std::string> nightly = texts_of(find_suite("nightly"));
  for (const char* part : {"full", "stress"}) {
    for (const std::string& text : texts_of(find_suite(part))) {
      EXPECT_EQ(nightly.count(text), 1u) << part << ": " << text;
    }
  }
}

// The simplest form of an operation: the first that is listed, which runs anywhere.
const Implementation& simplest_form(Operation operation) {
  for (const Implementation* implementation : all_implementations()) {
    if (implementation->description().operation == operation) return *implementation;
  }
  throw_bad_input(to_string(operation) + " has no implementation");
}

// Whatever a suite asks for, some implementation of each operation's simplest form must do it, or
// the problem protects nothing.
TEST(Suites, EveryProblemIsDoneByTheNaiveForm) {
  EXPECT_EQ(simplest_form(parse_operation("gated_delta")).description().name, "cpu/naive");
  EXPECT_EQ(simplest_form(parse_operation("causal_conv1d")).description().name, "cpu/direct");
  EXPECT_EQ(simplest_form(parse_operation("gated_delta_layer")).description().name, "cpu/naive");
  for (const char* name : {"quick", "full", "stress", "nightly"}) {
    for (const SuiteProblem& entry : find_suite(name).problems) {
      const Support support = simplest_form(entry.problem.operation).supports(entry.problem);
      EXPECT_TRUE(support.ok) << name << ": " << entry.problem.to_string() << ": "
                              << support.reason;
    }
  }
}

// What cannot be generated would fail only when it is run.
TEST(Suites, SmallProblemsAreValidCases) {
  for (const SuiteProblem& entry : find_suite("stress").problems) {
    if (entry.problem.total_tokens() * entry.problem.conv_channels() > 300000) continue;
    if (entry.problem.pool_row_padding > 1000) continue;
    EXPECT_NO_THROW(validate(generate_case(entry.problem))) << entry.problem.to_string();
  }
}

TEST(SuiteFiles, NameTheLineOfWhatIsWrong) {
  const std::string header = "problem\tchecks\tprotects\n";
  const auto parse = [&](const std::string& lines) {
    return message_of([&] { parse_suite_file("a.tsv", header + lines); });
  };
  EXPECT_EQ(parse("# comment\ngated_delta:dim=8\t-\tx\n"), "");
  EXPECT_NE(parse("\ngated_delta:dmi=8\t-\tx\n").find("a.tsv, line 3"), std::string::npos);
  EXPECT_NE(parse("gated_delta:dim=8\tevery_spilt\tx\n").find("every_spilt"), std::string::npos);
  EXPECT_NE(parse("gated_delta:dim=8\t-\n").find("3 are expected"), std::string::npos);
  EXPECT_NE(parse("gated_delta:dim=8\t\tx\n").find("'checks' is empty"), std::string::npos);
  EXPECT_NE(parse("gated_delta:dim={8|16\t-\tx\n").find("without '}'"), std::string::npos);
  EXPECT_NE(
      message_of([] { parse_suite_file("a.tsv", "shape\tchecks\tprotects\n"); }).find("header"),
      std::string::npos);
}

TEST(SuiteFiles, AlternativesStandForEachOfTheirParts) {
  EXPECT_EQ(expand_alternatives("a{1|2}b{x|y}"),
            (std::vector<std::string>{"a1bx", "a1by", "a2bx", "a2by"}));
  EXPECT_EQ(expand_alternatives("plain"), std::vector<std::string>{"plain"});
}

const char* const kLimits =
    "implementation\tproblems\twitness\tcause\tseen\n"
    "cpu/x\tdtype=bf16|f16,keys=equal\tgated_delta:dtype=bf16,keys=equal\twhy\twhere\n";

TEST(KnownLimits, CoverTheProblemsTheyNameAndNoOthers) {
  const auto limits = parse_known_limits("limits.tsv", kLimits);
  const auto covered = [&](const char* implementation, const char* problem) {
    return find_known_limit(limits, implementation, Problem::parse(problem)) != nullptr;
  };
  EXPECT_TRUE(covered("cpu/x", "gated_delta:dtype=bf16,keys=equal,seq=9"));
  EXPECT_TRUE(covered("cpu/x", "gated_delta:dtype=f16,keys=equal"));
  EXPECT_FALSE(covered("cpu/x", "gated_delta:dtype=f32,keys=equal"));
  EXPECT_FALSE(covered("cpu/x", "gated_delta:dtype=bf16"));
  EXPECT_FALSE(covered("cpu/y", "gated_delta:dtype=bf16,keys=equal"));
}

TEST(KnownLimits, AreGoneWhenTheirWitnessPassesAndNotBefore) {
  const auto limits = parse_known_limits("limits.tsv", kLimits);
  const auto witnessed = [&](const char* implementation, const char* problem) {
    return limits_witnessed_by(limits, implementation, Problem::parse(problem)).size();
  };
  EXPECT_EQ(witnessed("cpu/x", "gated_delta:dtype=bf16,keys=equal"), 1u);
  EXPECT_EQ(witnessed("cpu/x", "gated_delta:dtype=f16,keys=equal"), 0u);
  EXPECT_EQ(witnessed("cpu/y", "gated_delta:dtype=bf16,keys=equal"), 0u);
}

TEST(KnownLimits, RefuseUnknownFieldsAndForeignWitnesses) {
  const std::string header = "implementation\tproblems\twitness\tcause\tseen\n";
  const auto parse = [&](const std::string& line) {
    return message_of([&] { parse_known_limits("limits.tsv", header + line + "\n"); });
  };
  EXPECT_NE(parse("cpu/x\tdytpe=bf16\tgated_delta:dtype=bf16\twhy\twhere").find("line 2"),
            std::string::npos);
  EXPECT_NE(parse("cpu/x\tdtype=bf16\tgated_delta:dtype=f16\twhy\twhere").find("witness"),
            std::string::npos);
}

// A run over a witness and over a problem that the same implementation does well: the failure is a
// known limit, with its cause, and nothing else is.
TEST(KnownLimits, AreWhatARunCallsFailuresThatTheyCoverAndNothingElse) {
  if (!find_backend("cuda-emulated").status().available) GTEST_SKIP() << "not in this build";
  const std::string implementation = "cuda/chunkwise";
  const auto limit =
      std::find_if(known_limits().begin(), known_limits().end(),
                   [&](const KnownLimit& one) { return one.implementation == implementation; });
  ASSERT_NE(limit, known_limits().end());
  VerificationSpec spec;
  for (const Problem& problem : {limit->witness, Problem::parse("gated_delta:heads=1/2,dim=64,"
                                                                "seq=1x70,dtype=bf16")}) {
    spec.problems.push_back({problem, "-", "a known limit"});
  }
  spec.implementations = {implementation};
  spec.device = "cuda-emulated";
  spec.errors_only = true;
  std::vector<Verdict> verdicts;
  VerificationRun(spec, known_limits()).run([&](const VerifiedProblem& verified) {
    SCOPED_TRACE(verified.problem.to_string());
    EXPECT_EQ(verified.implementation, implementation);
    EXPECT_TRUE(verified.limits_gone.empty());
    const bool says_cause = verified.result.reason.find(limit->cause) != std::string::npos;
    EXPECT_EQ(says_cause, verdicts.empty()) << verified.result.reason;
    verdicts.push_back(verified.result.verdict);
  });
  EXPECT_EQ(verdicts, (std::vector{Verdict::known_limit, Verdict::passed}));
}

// A limit's entry whose own problem is its witness.
KnownLimit limit_of(const std::string& implementation, const std::string& witness) {
  return {implementation, {}, Problem::parse(witness), "cause of " + implementation, "nowhere"};
}

// The causes of the limits that the run says are gone.
std::vector<std::string> gone_after(const VerificationSpec& spec,
                                    const std::vector<KnownLimit>& limits) {
  std::vector<std::string> causes;
  VerificationRun(spec, limits).run([&](const VerifiedProblem& verified) {
    for (const KnownLimit* limit : verified.limits_gone) causes.push_back(limit->cause);
  });
  return causes;
}

VerificationSpec spec_of(const std::vector<std::string>& problems) {
  VerificationSpec spec;
  for (const std::string& problem : problems) {
    spec.problems.push_back({Problem::parse(problem), "-", "a known limit"});
  }
  spec.of_suite = true;  // what is too large is left out
  spec.device = "cpu";
  spec.options = VerifyOptions();
  return spec;
}

TEST(KnownLimits, ARunReportsALimitAsGoneWhereItsWitnessPasses) {
  const std::string witness = "gated_delta:heads=1/1,dim=8,seq=1x5";
  VerificationSpec spec = spec_of({witness, "gated_delta:heads=1/1,dim=8,seq=1x6"});
  spec.implementations = {"cpu/naive", "cpu/recurrent"};
  EXPECT_EQ(gone_after(spec, {limit_of("cpu/recurrent", witness)}),
            std::vector<std::string>{"cause of cpu/recurrent"});
}

TEST(KnownLimits, ARunReportsNoLimitAsGoneWhoseWitnessWasNotReached) {
  const std::string in_suite = "gated_delta:heads=1/1,dim=8,seq=1x5";
  const std::string too_large = "gated_delta:heads=1/1,dim=64,seq=1x4096";
  const std::string unsupported = "gated_delta:heads=1/1,dim=8,seq=1x5,chunk=7";
  VerificationSpec spec = spec_of({in_suite, too_large, unsupported});
  spec.implementations = {"cpu/chunkwise"};
  spec.most_operations = 1e6;
  std::vector<Verdict> verdicts;
  VerificationRun(spec, {}).run(
      [&](const VerifiedProblem& verified) { verdicts.push_back(verified.result.verdict); });
  ASSERT_EQ(verdicts, (std::vector{Verdict::passed, Verdict::too_large, Verdict::unsupported}));
  const std::vector<KnownLimit> limits = {
      limit_of("cpu/chunkwise", too_large), limit_of("cpu/chunkwise", unsupported),
      limit_of("cpu/recurrent", in_suite),  // an implementation that was not asked for
      limit_of("cpu/chunkwise", "gated_delta:heads=1/1,dim=8,seq=1x9")};  // not in the suite
  EXPECT_EQ(gone_after(spec, limits), std::vector<std::string>{});
}

// Some limits show in the continuation alone: a run that leaves it out says nothing of them.
TEST(KnownLimits, ARunOfErrorsAloneReportsNoLimitAsGone) {
  const std::string witness = "gated_delta:heads=1/1,dim=8,seq=1x5";
  VerificationSpec spec = spec_of({witness});
  spec.implementations = {"cpu/recurrent"};
  spec.options = VerifyOptions::errors_only();
  EXPECT_EQ(gone_after(spec, {limit_of("cpu/recurrent", witness)}), std::vector<std::string>{});
}

TEST(KnownLimits, HaveWitnessesInTheStressSuite) {
  const std::set<std::string> stress = texts_of(find_suite("stress"));
  for (const KnownLimit& limit : known_limits()) {
    EXPECT_EQ(stress.count(limit.witness.to_string()), 1u) << limit.witness.to_string();
  }
}

}  // namespace
}  // namespace gdn
