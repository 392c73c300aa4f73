#include "harness/tables/idle_chunks.h"

#include <map>

namespace gdn {
namespace {

// A chunkwise or fused form that did not run has chunk 0 too.
bool has_no_chunks(const Row& row) {
  return row.chunk == 0 && row.form != "chunkwise" && row.form != "fused";
}

}  // namespace

std::string without_chunk(std::string problem) {
  const auto begin = problem.find(",chunk=");
  if (begin == std::string::npos) return problem;
  const auto end = problem.find(',', begin + 1);
  return problem.erase(begin, end == std::string::npos ? end : end - begin);
}

std::vector<Row> without_idle_chunks(const std::vector<Row>& rows) {
  std::vector<Row> kept;
  std::map<std::string, std::size_t> places;  // in `kept`, of rows without chunks
  for (const Row& row : rows) {
    const auto asked = row.fields.find("requested_chunk");
    if (!has_no_chunks(row) || asked == row.fields.end()) {
      kept.push_back(row);
      continue;
    }
    Row plain = row;
    plain.problem = without_chunk(row.problem);
    plain.fields["requested_chunk"] = std::int64_t{0};
    const auto [place, is_first] = places.emplace(plain.key() + "\n" + plain.device, kept.size());
    if (is_first) {
      kept.push_back(std::move(plain));
    } else if (plain.date >= kept[place->second].date) {
      kept[place->second] = std::move(plain);
    }
  }
  return kept;
}

}  // namespace gdn
