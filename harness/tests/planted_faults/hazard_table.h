// data/hazards.tsv as a list.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace gdn::testing {

struct Hazard {
  std::string hazard;
  std::string seen_in;
  std::string problem;    ///< or a test's name, "binary:Suite.Test"
  std::string fault;      ///< "-": nothing is planted, the test named looks after it
  std::string caught_by;  ///< a check of harness/verify/verify.h
  /// A place of harness/explain/fault_patterns.h; "-": no single run shows it; "stopped": a run is
  /// refused for where it wrote.
  std::string explained_as;
  int line = 0;
  bool is_planted() const { return fault != "-"; }
  std::string test_name() const { return fault + "_line_" + std::to_string(line); }
};

void PrintTo(const Hazard& hazard, std::ostream* out);

std::vector<Hazard> read_hazards();
std::vector<Hazard> planted_hazards();

}  // namespace gdn::testing
