#include "harness/cli/usage.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "interface/error.h"
#include "interface/problem.h"

namespace gdn::cli {
namespace {

std::string_view without_dashes(std::string_view word) {
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

}  // namespace

std::vector<std::string> options_given(const CLI::App& app) {
  std::vector<std::string> given;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) given.push_back(option->get_name());
  }
  return given;
}

void require_only(const CLI::App& app, const std::vector<std::string>& used,
                  const std::string& reason) {
  for (const std::string& name : options_given(app)) {
    if (std::find(used.begin(), used.end(), name) == used.end()) {
      throw_bad_input(name + ": " + reason);
    }
  }
}

void require_none_overwritten(const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code absent;
    if (std::filesystem::equivalent(input, output, absent)) {
      throw_bad_input(output + ": is read and not overwritten; name another output file");
    }
  }
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(word, candidates);
  const std::size_t length = without_dashes(word).size();
  // Two letters of a short word: neighbours swapped.
  const std::size_t most = length < 4 ? 1 : std::max<std::size_t>(2, length / 3);
  if (nearest.empty() || edit_distance(word, nearest) > most) return "";
  return " (did you mean '" + nearest + "'?)";
}

}  // namespace gdn::cli
