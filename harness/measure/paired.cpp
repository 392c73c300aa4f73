#include "harness/measure/paired.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "interface/error.h"

extern char** environ;

namespace gdn {
namespace {

// Both were asked for: no search along PATH, which would find another gdnbench.
void require_executable(const char* side, const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored) || access(path.c_str(), X_OK) != 0) {
    throw_bad_input(fmt::format(
        "paired: {} '{}' is not an executable file, expected a gdnbench binary", side, path));
  }
}

std::string file_of(const PairedOptions& options, const PairedTurn& turn) {
  return fmt::format("{}/{}-{}.h5", options.folder, turn.is_b ? "b" : "a", turn.pair + 1);
}

// Its messages go to our stderr; its summary of counts would only stand in the way. It is to leave
// the rows file `file`.
void run_process(std::vector<std::string> arguments, const std::string& file) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failure = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  std::string command;
  for (const std::string& argument : arguments) command += (command.empty() ? "" : " ") + argument;
  if (failure != 0) {
    throw_bad_input(
        fmt::format("paired: '{}' could not be started: {}", command, std::strerror(failure)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (WIFSIGNALED(status)) {
    throw_bad_input(fmt::format("paired: '{}' was ended by signal {}", command, WTERMSIG(status)));
  }
  const int code = WEXITSTATUS(status);
  if (code != 0 && code != 1) {
    throw_bad_input(fmt::format("paired: '{}' ended with exit code {}", command, code));
  }
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    throw_bad_input(fmt::format(
        "paired: '{}' ended with exit code {}, expected a gdnbench binary; its rows file '{}': no "
        "such file",
        arguments.front(), code, file));
  }
}

}  // namespace

std::vector<PairedTurn> paired_order(int pairs) {
  std::vector<PairedTurn> order;
  for (int pair = 0; pair < pairs; ++pair) {
    const bool b_first = pair % 2 == 1;
    order.push_back({pair, b_first});
    order.push_back({pair, !b_first});
  }
  return order;
}

PairedRuns run_paired(const PairedOptions& options,
                      const std::function<void(std::size_t, const PairedTurn&)>& on_turn) {
  if (options.pairs < 2) throw_bad_input("paired: at least 2 pairs are needed for an interval");
  if (!options.plugins) {
    require_executable("A", options.a);
    require_executable("B", options.b);
  }
  const std::vector<PairedTurn> order = paired_order(options.pairs);
  for (const PairedTurn& turn : order) {
    const std::string file = file_of(options, turn);
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) {
      throw_bad_input("paired: '" + file + "' exists; expected a folder without earlier runs");
    }
  }

  PairedRuns runs;
  runs.a.resize(static_cast<std::size_t>(options.pairs));
  runs.b.resize(static_cast<std::size_t>(options.pairs));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const PairedTurn& turn = order[i];
    if (on_turn) on_turn(i, turn);
    const std::string file = file_of(options, turn);
    const std::string& side = turn.is_b ? options.b : options.a;
    std::vector<std::string> arguments = {side, "sweep"};
    if (options.plugins) arguments = {"/proc/self/exe", "sweep", "--plugin", side};
    arguments.insert(arguments.end(), options.sweep_arguments.begin(),
                     options.sweep_arguments.end());
    arguments.insert(arguments.end(), {"--quiet", "--out", file});
    run_process(arguments, file);
    (turn.is_b ? runs.b : runs.a)[static_cast<std::size_t>(turn.pair)] = read_rows(file);
  }
  return runs;
}

}  // namespace gdn
