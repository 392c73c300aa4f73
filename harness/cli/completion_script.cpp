// Completion scripts. Each shell gets the same: commands first, then a command's flags, then a
// flag's values where they are known and file names elsewhere. A comma list completes its last
// item.
#include <fmt/format.h>

#include "harness/cli/syntax.h"
#include "interface/error.h"
#include "interface/problem.h"

namespace gdn::cli {
namespace {

std::string joined(const std::vector<std::string>& texts) {
  std::string text;
  for (const std::string& one : texts) text += (text.empty() ? "" : " ") + one;
  return text;
}

std::string flags_of(const CommandSyntax& command) {
  std::vector<std::string> flags;
  for (const OptionSyntax& option : command.options) {
    if (!option.positional) flags.push_back(option.name);
  }
  return joined(flags);
}

std::string names_of(const std::vector<CommandSyntax>& commands) {
  std::vector<std::string> names;
  for (const CommandSyntax& command : commands) names.push_back(command.name);
  return joined(names);
}

std::string escaped(const std::string& text, const std::string& characters) {
  std::string result;
  for (const char c : text) {
    if (characters.find(c) != std::string::npos) result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

// Values of a flag by "command flag", as the branches of a case statement.
std::string value_branches(const std::vector<CommandSyntax>& commands) {
  std::string text;
  for (const CommandSyntax& command : commands) {
    for (const OptionSyntax& option : command.options) {
      if (option.positional || option.choices.empty()) continue;
      text += fmt::format("    '{} {}') values='{}' ;;\n", command.name, option.name,
                          joined(option.choices));
    }
  }
  return text;
}

std::string bash_script(const std::vector<CommandSyntax>& commands) {
  std::string flags;
  for (const CommandSyntax& command : commands) {
    flags += fmt::format("    {}) flags='{}' ;;\n", command.name, flags_of(command));
  }
  return fmt::format(
      R"(# Completion of gdnbench in bash: source <(gdnbench completion bash)
_gdnbench() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local command=${{COMP_WORDS[1]}} flags= values= first=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$current"))
    return
  fi
  case "$command $before" in
{}  esac
  if [ -n "$values" ]; then
    case "$current" in *,*) first=${{current%,*}}, ;; esac
    COMPREPLY=($(compgen -P "$first" -W "$values" -- "${{current##*,}}"))
    return
  fi
  case "$command" in
{}  esac
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}}
complete -o filenames -F _gdnbench gdnbench
)",
      names_of(commands), value_branches(commands), flags);
}

// '...' in zsh's and fish's own quoting of a single quote.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

std::string zsh_script(const std::vector<CommandSyntax>& commands) {
  std::string names;
  std::string branches;
  for (const CommandSyntax& command : commands) {
    names += "    " + quoted(escaped(command.name + ":" + command.help, "")) + "\n";
    branches += fmt::format("    {})\n      _arguments", command.name);
    for (const OptionSyntax& option : command.options) {
      const std::string help = escaped(option.help, "[]:\\");
      if (option.positional) {
        branches += " \\\n        " + quoted("*:" + help + ":_files");
        continue;
      }
      std::string action = ":_files";
      if (!option.choices.empty()) {
        const std::string list = joined(option.choices);
        action = option.is_list ? ":_values -s , value " + list : ":(" + list + ")";
      }
      branches += " \\\n        " + quoted((option.is_list ? "*" : "") + option.name + "[" + help +
                                           "]" + (option.takes_value ? ":value" + action : ""));
    }
    branches += " ;;\n";
  }
  return fmt::format(
      R"(#compdef gdnbench
# Completion of gdnbench in zsh: gdnbench completion zsh > a folder of $fpath, as _gdnbench
_gdnbench() {{
  local -a names
  names=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command names
    return
  fi
  local command=${{words[2]}}
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
if [ "$funcstack[1]" = _gdnbench ]; then _gdnbench "$@"; else compdef _gdnbench gdnbench; fi
)",
      names, branches);
}

std::string fish_script(const std::vector<CommandSyntax>& commands) {
  const std::string names = names_of(commands);
  std::string text =
      "# Completion of gdnbench in fish: gdnbench completion fish > "
      "~/.config/fish/completions/gdnbench.fish\n";
  const auto quoted_fish = [](const std::string& help) { return "'" + escaped(help, "'\\") + "'"; };
  for (const CommandSyntax& command : commands) {
    text +=
        fmt::format("complete -c gdnbench -f -n 'not __fish_seen_subcommand_from {}' -a {} -d {}\n",
                    names, command.name, quoted_fish(command.help));
  }
  for (const CommandSyntax& command : commands) {
    for (const OptionSyntax& option : command.options) {
      if (option.positional || option.name.rfind("--", 0) != 0) continue;
      text += fmt::format("complete -c gdnbench -n '__fish_seen_subcommand_from {}' -l {} -d {}",
                          command.name, option.name.substr(2), quoted_fish(option.help));
      if (!option.choices.empty()) {
        text += " -x -a '" + joined(option.choices) + "'";
      } else if (option.takes_value) {
        text += " -r";
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace

std::string completion_script(const std::string& shell,
                              const std::vector<CommandSyntax>& commands) {
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  throw_bad_input("completion: shell '" + shell + "' is unknown (did you mean '" +
                  nearest_name(shell, {"bash", "zsh", "fish"}) + "'?)");
}

}  // namespace gdn::cli
