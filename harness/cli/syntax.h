// The command line described as data, read off the parser itself: what completion scripts and the
// manual page are generated from, so that neither can name what the parser does not know.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace gdn::cli {

struct OptionSyntax {
  std::string name;  ///< "--preset"; for a positional its name, "files"
  std::string help;
  std::string default_text;  ///< empty: none shown
  bool positional = false;
  bool takes_value = false;
  bool is_list = false;              ///< comma lists
  std::vector<std::string> choices;  ///< values it may have, where they are known; else empty
};

struct CommandSyntax {
  std::string name;
  std::string help;
  std::string examples;  ///< what stands under --help
  std::vector<OptionSyntax> options;
};

/// Every command of the parser, in its order.
std::vector<CommandSyntax> commands_of(const CLI::App& root);

/// Choices written out in a help text, "markdown | latex | csv" or "f32|bf16|f16"; empty if there
/// are none.
std::vector<std::string> choices_in(const std::string& help);

/// Completion script for "bash", "zsh" or "fish". Throws Error(bad_input) with the nearest name.
std::string completion_script(const std::string& shell, const std::vector<CommandSyntax>& commands);

/// Manual page (roff, section 1).
std::string manual_page(const std::vector<CommandSyntax>& commands);

}  // namespace gdn::cli
