// gdnbench: the command line. Parses, runs one command, and turns errors into one line on stderr
// and the documented exit code: 0 done and all checks passed, 1 a check failed, 2 bad usage or bad
// input, 3 the device or backend asked for is not available.
#include <fmt/format.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "harness/cli/command.h"
#include "harness/cli/usage.h"
#include "harness/plugin/host.h"
#include "harness/plugin/requests.h"
#include "harness/rows/build_info.h"
#include "interface/error.h"

namespace gdn::cli {
namespace {

std::string g_command_line;

// Flags a parser knows, with their dashes, to name the nearest one to a mistyped flag.
std::vector<std::string> known_flags(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::string explain_extras(const CLI::App& app, const std::vector<std::string>& commands) {
  for (const CLI::App* used : app.get_subcommands()) {
    const std::vector<std::string> extras = used->remaining();
    if (extras.empty()) continue;
    const std::string flag = extras.front().substr(0, extras.front().find('='));
    return fmt::format("{}: unknown argument '{}'{}; see gdnbench {} --help", used->get_name(),
                       extras.front(), suggestion(flag, known_flags(*used)), used->get_name());
  }
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return "no command given; see gdnbench --help";
  return fmt::format("unknown command '{}'{}; see gdnbench --help", extras.front(),
                     suggestion(extras.front(), commands));
}

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_list());
  commands.push_back(make_info());
  commands.push_back(make_gen());
  commands.push_back(make_run());
  commands.push_back(make_verify());
  commands.push_back(make_explain());
  commands.push_back(make_convert());
  commands.push_back(make_bench());
  commands.push_back(make_sweep());
  commands.push_back(make_table());
  commands.push_back(make_report());
  commands.push_back(make_compare());
  commands.push_back(make_estimate());
  commands.push_back(make_accumulate());
  commands.push_back(make_baseline());
  commands.push_back(make_rows());
  commands.push_back(make_completion());
  commands.push_back(make_manual());
  return commands;
}

int fail(const std::string& message, int code) {
  fmt::print(stderr, "gdnbench: {}\n", message);
  return code;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("gdnbench: verify and time Gated DeltaNet kernels", "gdnbench");
  app.set_version_flag("--version", library_version());
  app.footer(
      "Exit codes: 0 done and all checks passed; 1 a check failed; 2 bad usage or bad input;\n"
      "3 the device or backend asked for is not available.\n"
      "Each command has --help with an example.");
  app.require_subcommand(0, 1);
  app.allow_extras();

  const auto commands = all_commands();
  std::vector<CLI::App*> subcommands;
  std::vector<std::string> names;
  for (const auto& command : commands) {
    CLI::App* sub = app.add_subcommand(command->name(), command->help());
    sub->footer("Example:\n  " + command->example());
    sub->allow_extras();
    command->add_options(*sub);
    subcommands.push_back(sub);
    names.push_back(command->name());
  }

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& request) {
    return app.exit(request);
  } catch (const CLI::CallForAllHelp& request) {
    return app.exit(request);
  } catch (const CLI::CallForVersion& request) {
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    return fail(error.what(), 2);
  }

  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!subcommands[i]->parsed()) continue;
    if (commands[i]->allows_extras()) {
      commands[i]->take_extras(subcommands[i]->remaining());
    } else if (!subcommands[i]->remaining().empty()) {
      break;
    }
    return commands[i]->run();
  }
  return fail(explain_extras(app, names), 2);
}

std::string reason_of(const std::exception& error) {
  const auto* const of_system = dynamic_cast<const std::system_error*>(&error);
  return of_system == nullptr ? error.what() : of_system->code().message();
}

int output_lost(const std::string& reason) {
  return fail("standard output cannot be written: " + reason, 2);
}

// The exit code, or that of bad input where what was printed did not all arrive, as on a full disk.
int unless_output_lost(int code) {
  if (std::fflush(stdout) != 0) return output_lost(std::strerror(errno));
  return std::ferror(stdout) != 0 ? output_lost("some of it was not taken") : code;
}

// Every run of a verification makes and frees arrays of up to gigabytes. By default the C library
// hands them back to the system each time and has them zeroed page by page when it asks again: a
// third of the time of a large verification. Kept, they are used again as they are.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_ARENA_MAX, 1);  // what one thread freed, another uses
#endif
}

}  // namespace

const std::string& command_line() { return g_command_line; }

}  // namespace gdn::cli

int main(int argc, char** argv) {
  gdn::cli::keep_freed_memory();
  if (argc == 2 && std::strcmp(argv[1], gdn::kHostCommand) == 0) return gdn::host_plugin();
  // A file-size limit is then an error of write(), reported like a full disk, not a silent death.
  std::signal(SIGXFSZ, SIG_IGN);
  for (int i = 0; i < argc; ++i) {
    gdn::cli::g_command_line += (i == 0 ? "gdnbench" : std::string(" ") + argv[i]);
  }
  try {
    return gdn::cli::unless_output_lost(gdn::cli::parse_and_run(argc, argv));
  } catch (const gdn::Error& error) {
    return gdn::cli::fail(error.what(), gdn::exit_code(error.kind()));
  } catch (const std::bad_alloc&) {
    return gdn::cli::fail("out of host memory", 2);
  } catch (const std::exception& error) {
    // fmt throws where it cannot print.
    if (std::ferror(stdout) != 0) return gdn::cli::output_lost(gdn::cli::reason_of(error));
    return gdn::cli::fail(fmt::format("unexpected: {}", error.what()), 1);
  }
}
