// What a command line must not say, whatever the command: options without effect beside others, an
// output file that is one of the inputs, words that were mistyped.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace gdn::cli {

/// Names ("--heads") of the options that stand on the command line, in the order of --help.
std::vector<std::string> options_given(const CLI::App& app);

/// Throws Error(bad_input) "FLAG: REASON" for the first option given that is not one of `used`: an
/// option that is ignored would leave its user with the result of another command.
void require_only(const CLI::App& app, const std::vector<std::string>& used,
                  const std::string& reason);

/// Throws Error(bad_input) if `output`, also by another path or a link, is one of the files read.
void require_none_overwritten(const std::string& output, const std::vector<std::string>& inputs);

/// " (did you mean 'NAME'?)" where a candidate is near: about one letter in three may differ.
/// Otherwise empty: a far one would only mislead.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace gdn::cli
