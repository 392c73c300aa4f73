#include "harness/tests/planted_faults/hazard_table.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "harness/problems/problem_table.h"

namespace gdn::testing {

void PrintTo(const Hazard& hazard, std::ostream* out) { *out << hazard.hazard; }

std::vector<Hazard> read_hazards() {
  std::ifstream file(GDN_SOURCE_DIR "/data/hazards.tsv");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const TextTable table =
      TextTable::parse("data/hazards.tsv", text,
                       {"hazard", "seen_in", "problem", "fault", "caught_by", "explained_as"});
  std::vector<Hazard> hazards;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const auto& row = table.rows[i];
    hazards.push_back({row[0], row[1], row[2], row[3], row[4], row[5], table.line_numbers[i]});
  }
  return hazards;
}

std::vector<Hazard> planted_hazards() {
  std::vector<Hazard> hazards = read_hazards();
  std::erase_if(hazards, [](const Hazard& hazard) { return !hazard.is_planted(); });
  return hazards;
}

}  // namespace gdn::testing
