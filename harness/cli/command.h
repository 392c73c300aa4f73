// One subcommand of gdnbench: its options on a CLI11 app, and what it does. Each command is one
// file and one line in the list of main.cpp. run() returns the exit code: 0 done and all checks
// passed, 1 a check failed; gdn::Error and the parser give 2 (bad usage or input) and 3 (device
// absent).
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

namespace gdn::cli {

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string name() const = 0;
  virtual std::string help() const = 0;
  /// Shown under --help: a command line that works.
  virtual std::string example() const = 0;
  virtual void add_options(CLI::App& app) = 0;
  virtual int run() = 0;
  /// True if arguments gdnbench does not know are handed on (to Google Benchmark, say).
  virtual bool allows_extras() const { return false; }
  virtual void take_extras(const std::vector<std::string>& extras) { (void)extras; }
};

// One line per command, in the order of --help.
std::unique_ptr<Command> make_list();
std::unique_ptr<Command> make_info();
std::unique_ptr<Command> make_gen();
std::unique_ptr<Command> make_run();
std::unique_ptr<Command> make_verify();
std::unique_ptr<Command> make_explain();
std::unique_ptr<Command> make_convert();
std::unique_ptr<Command> make_bench();
std::unique_ptr<Command> make_sweep();
std::unique_ptr<Command> make_table();
std::unique_ptr<Command> make_report();
std::unique_ptr<Command> make_compare();
std::unique_ptr<Command> make_estimate();
std::unique_ptr<Command> make_accumulate();
std::unique_ptr<Command> make_baseline();
std::unique_ptr<Command> make_rows();
std::unique_ptr<Command> make_completion();
std::unique_ptr<Command> make_manual();

/// The command line as typed, for the `command` column of rows.
const std::string& command_line();

}  // namespace gdn::cli
