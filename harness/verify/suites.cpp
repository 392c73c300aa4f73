#include "harness/verify/suites.h"

#include <map>
#include <sstream>

#include "harness/operations/operation_harness.h"
#include "harness/problems/problem_table.h"
#include "interface/error.h"

namespace gdn {
namespace suite_text {  // embedded by cmake/GdnEmbedText.cmake
extern const char* const peers_tsv;
extern const char* const stress_tsv;
extern const char* const nightly_tsv;
}  // namespace suite_text

namespace {

using SuiteProblems = std::vector<SuiteProblem>;

// What the operations themselves list (OperationHarness::suite).
SuiteProblems of_operations(const char* list, const std::string& protects) {
  SuiteProblems problems;
  for (const OperationHarness* harness : operation_harnesses()) {
    for (const std::string& text : harness->suite(list)) {
      problems.push_back({Problem::parse(text), "-", protects, false, false});
    }
  }
  // Operations answer a name they do not know with no problems.
  if (problems.empty()) {
    throw_bad_input("suite list '" + std::string(list) + "': no operation has problems of it");
  }
  return problems;
}

// One after the other; a problem named again is left out, its further checks are kept.
SuiteProblems joined(std::initializer_list<SuiteProblems> lists) {
  SuiteProblems all;
  std::map<std::string, std::size_t> places;
  for (const SuiteProblems& list : lists) {
    for (const SuiteProblem& entry : list) {
      const auto [place, added] = places.emplace(entry.problem.to_string(), all.size());
      if (added) {
        all.push_back(entry);
      } else {
        all[place->second].every_split |= entry.every_split;
        all[place->second].token_by_token |= entry.token_by_token;
      }
    }
  }
  return all;
}

SuiteProblems quick() { return of_operations("quick", "every operation, variant and option"); }
SuiteProblems grid() {
  return of_operations("grid", "every length, dtype, head ratio and size, option and distribution");
}
SuiteProblems fills_a_gpu() { return of_operations("gpu", "batches that fill a GPU"); }
SuiteProblems peers() { return parse_suite_file("suites/peers.tsv", suite_text::peers_tsv); }
SuiteProblems stress() { return parse_suite_file("suites/stress.tsv", suite_text::stress_tsv); }
SuiteProblems large() { return parse_suite_file("suites/nightly.tsv", suite_text::nightly_tsv); }

struct NamedSuite {
  const char* name;
  const char* help;
  SuiteProblems (*problems)();
};
constexpr NamedSuite kSuites[] = {
    {"quick", "every operation, variant and option, small", quick},
    {"full",
     "every length, dtype, head ratio and size, option, variant and distribution; the cases of "
     "other projects",
     [] {
       return joined({grid(), peers()});
     }},
    {"stress", "what kernels of this kind have failed at", [] { return joined({stress()}); }},
    {"nightly", "full, stress, and batches that fill a large device",
     [] {
       return joined({grid(), peers(), stress(), large()});
     }},
    {"gpu", "the grid of full, and batches that fill a GPU",
     [] {
       return joined({grid(), fills_a_gpu()});
     }},
    {"sanitizer", "few and small, for compute-sanitizer",
     [] { return of_operations("sanitizer", "memory errors and races"); }},
};

void set_checks(const std::string& checks, SuiteProblem* entry) {
  if (checks == "-") return;
  std::istringstream stream(checks);
  for (std::string check; std::getline(stream, check, ',');) {
    if (check == "every_split") {
      entry->every_split = true;
    } else if (check == "token_by_token") {
      entry->token_by_token = true;
    } else {
      throw_bad_input("check '" + check +
                      "' is unknown; expected every_split, token_by_token or -");
    }
  }
}

}  // namespace

std::vector<SuiteProblem> parse_suite_file(const std::string& name, const std::string& text) {
  const bool of_peers = text.find("\tchecks\t") == std::string::npos;
  const TextTable table =
      TextTable::parse(name, text, {"problem", of_peers ? "origin" : "checks", "protects"});
  std::vector<SuiteProblem> problems;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const std::vector<std::string>& fields = table.rows[i];
    try {
      for (const std::string& problem : expand_alternatives(fields[0])) {
        SuiteProblem entry{Problem::parse(problem), of_peers ? fields[1] : "-", fields[2], false,
                           false};
        if (!of_peers) set_checks(fields[1], &entry);
        problems.push_back(std::move(entry));
      }
    } catch (const Error& error) {
      throw Error(error.kind(), table.place(i) + ": " + error.what());
    }
  }
  return problems;
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  for (const NamedSuite& suite : kSuites) names.emplace_back(suite.name);
  return names;
}

Suite find_suite(const std::string& name) {
  for (const NamedSuite& suite : kSuites) {
    if (suite.name == name) return {suite.name, suite.help, suite.problems()};
  }
  std::string known;
  for (const std::string& suite : suite_names()) known += (known.empty() ? "" : "|") + suite;
  throw_bad_input("suite '" + name + "' is unknown; expected " + known + " (did you mean '" +
                  nearest_name(name, suite_names()) + "'?)");
}

}  // namespace gdn
