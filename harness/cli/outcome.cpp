#include "harness/cli/outcome.h"

#include <fmt/format.h>

#include "harness/files/json.h"

namespace gdn::cli {

void Outcome::print(const std::string& line,
                    const std::vector<std::pair<std::string, std::string>>& members) const {
  if (json_) {
    fmt::print("{}\n", json_object(members));
  } else if (!quiet_) {
    fmt::print("{}\n", line);
  }
}

}  // namespace gdn::cli
