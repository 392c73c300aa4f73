// --plugin and its like, of the commands that run implementations.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "harness/plugin/hosted_plugins.h"

namespace gdn::cli {

class PluginOptions {
 public:
  void add_to(CLI::App& app, const std::string& group);
  /// Of a command about one case of one implementation, which load_here() is for.
  void add_here_to(CLI::App& app);
  bool any() const { return !paths_.empty(); }
  const std::vector<std::string>& paths() const { return paths_; }
  /// " --plugin 'FILE'" for each, to be part of a command line.
  std::string as_arguments() const;

  /// Adds the files' implementations to those of this process, which runs their code from now on. Throws
  /// Error(bad_input).
  void load_here() const;
  /// Loads the files, each in a process of its own. Throws Error(bad_input) for a file that is not there.
  std::vector<HostedPlugin> load(const PluginSettings& settings) const;
  /// Loads them, and gives what to choose on this device: `named`, or where that is empty what of the
  /// plug-ins the device runs; and always what stands for those that could not be loaded. Without plug-ins
  /// `named`. Throws Error(unsupported) for a plug-in of which the device would run none.
  std::vector<std::string> names_with(const std::vector<std::string>& named,
                                      const std::string& device, bool exact_buffers) const;

 private:
  std::vector<std::string> paths_;
  double limit_s_ = PluginSettings{}.limit_s;
};

}  // namespace gdn::cli
