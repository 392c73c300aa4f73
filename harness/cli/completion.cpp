// gdnbench completion SHELL and gdnbench man: generated from the parser.
#include <fmt/format.h>

#include "harness/cli/command.h"
#include "harness/cli/syntax.h"

namespace gdn::cli {
namespace {

class Completion : public Command {
 public:
  std::string name() const override { return "completion"; }
  std::string help() const override { return "completion script for bash, zsh or fish"; }
  std::string example() const override {
    return "source <(gdnbench completion bash)\n"
           "  gdnbench completion zsh > ~/.zfunc/_gdnbench\n"
           "  gdnbench completion fish > ~/.config/fish/completions/gdnbench.fish";
  }
  void add_options(CLI::App& app) override {
    root_ = app.get_parent();
    app.add_option("shell", shell_, "bash | zsh | fish")->required();
  }
  int run() override {
    fmt::print("{}", completion_script(shell_, commands_of(*root_)));
    return 0;
  }

 private:
  const CLI::App* root_ = nullptr;
  std::string shell_;
};

class Manual : public Command {
 public:
  std::string name() const override { return "man"; }
  std::string help() const override { return "this manual as a man page"; }
  std::string example() const override { return "gdnbench man | man -l -"; }
  void add_options(CLI::App& app) override { root_ = app.get_parent(); }
  int run() override {
    fmt::print("{}", manual_page(commands_of(*root_)));
    return 0;
  }

 private:
  const CLI::App* root_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> make_completion() { return std::make_unique<Completion>(); }
std::unique_ptr<Command> make_manual() { return std::make_unique<Manual>(); }

}  // namespace gdn::cli
