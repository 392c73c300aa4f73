#include "harness/cli/syntax.h"

#include <algorithm>
#include <cctype>

#include "harness/measure/model_shapes.h"
#include "harness/problems/presets.h"
#include "harness/tables/table_presets.h"
#include "interface/device.h"
#include "interface/implementation.h"

namespace gdn::cli {
namespace {

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

// Values that the program knows and a help text does not list.
std::vector<std::string> known_values(const std::string& command, const std::string& option) {
  std::vector<std::string> values;
  if (option == "--impl") {
    for (const Implementation* implementation : all_implementations()) {
      add_once(values, implementation->description().name);
    }
  } else if (option == "--device") {
    values.push_back("best");
    for (const Backend& backend : backends()) add_once(values, backend.name);
  } else if (option == "--op") {
    for (const Operation operation : operations()) values.push_back(operation->name);
  } else if (option == "--model") {
    for (const ModelShape& model : model_shapes()) values.push_back(model.name);
  } else if (option == "--preset" && command == "table") {
    for (const TablePreset& preset : table_presets()) values.push_back(preset.name);
  } else if (option == "--preset") {
    values.push_back("default");
    for (const Preset& preset : presets()) values.push_back(preset.name);
  }
  return values;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' ||
         c == '+';
}

OptionSyntax syntax_of(const std::string& command, const CLI::Option& option) {
  OptionSyntax syntax;
  syntax.positional = option.get_lnames().empty() && option.get_snames().empty();
  syntax.name = syntax.positional              ? option.get_name(true)
                : !option.get_lnames().empty() ? "--" + option.get_lnames().front()
                                               : "-" + option.get_snames().front();
  syntax.help = option.get_description();
  syntax.takes_value = option.get_items_expected_max() > 0;
  if (syntax.takes_value) syntax.default_text = option.get_default_str();
  syntax.is_list = option.get_delimiter() != '\0' || option.get_group() == "Axes (comma lists)";
  if (!syntax.takes_value) return syntax;
  syntax.choices = known_values(command, syntax.name);
  if (syntax.choices.empty()) syntax.choices = choices_in(syntax.help);
  return syntax;
}

}  // namespace

std::vector<std::string> choices_in(const std::string& help) {
  std::vector<std::string> longest;
  for (std::size_t at = 0; at < help.size();) {
    if (!is_word(help[at])) {
      ++at;
      continue;
    }
    std::vector<std::string> run;
    while (at < help.size() && is_word(help[at])) {
      const std::size_t begin = at;
      while (at < help.size() && is_word(help[at])) ++at;
      run.push_back(help.substr(begin, at - begin));
      const std::size_t bar = help.find_first_not_of(' ', at);
      if (bar == std::string::npos || help[bar] != '|') break;
      at = std::min(help.find_first_not_of(' ', bar + 1), help.size());
    }
    if (run.size() > std::max<std::size_t>(longest.size(), 1)) longest = run;
  }
  return longest;
}

std::vector<CommandSyntax> commands_of(const CLI::App& root) {
  std::vector<CommandSyntax> commands;
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    CommandSyntax command{app->get_name(), app->get_description(), app->get_footer(), {}};
    for (const CLI::Option* option : app->get_options()) {
      command.options.push_back(syntax_of(command.name, *option));
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

}  // namespace gdn::cli
