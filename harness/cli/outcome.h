// What a command that writes a file says when it is done: one line, JSON with --json, nothing with
// --quiet. Errors go to stderr whatever is asked for.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gdn::cli {

class Outcome {
 public:
  void add_to(CLI::App& app) {
    app.add_flag("--quiet", quiet_, "nothing on stdout");
    app.add_flag("--json", json_, "what was done, as JSON");
  }
  /// `members`: the line's facts; values are JSON already.
  void print(const std::string& line,
             const std::vector<std::pair<std::string, std::string>>& members) const;

 private:
  bool quiet_ = false;
  bool json_ = false;
};

}  // namespace gdn::cli
