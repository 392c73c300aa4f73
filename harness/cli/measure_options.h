// Options of measuring, shared by bench and sweep: device, implementations, cold or hot, when to
// stop.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "harness/cli/plugin_options.h"
#include "harness/measure/measure.h"
#include "interface/problem.h"

namespace gdn::cli {

class AxisOptions;

class MeasureCliOptions {
 public:
  void add_to(CLI::App& app);
  /// --plugin too.
  void add_with_plugins_to(CLI::App& app);
  /// Throws Error(bad_input) where the options contradict each other.
  MeasureOptions options() const;
  const std::string& device() const { return device_; }
  const std::vector<std::string>& implementations() const { return implementations_; }
  /// What of them the device runs, with the plug-ins' of commands that take plug-ins.
  std::vector<const Implementation*> chosen(const DeviceInfo& device) const;

 private:
  std::string device_ = "best";
  std::vector<std::string> implementations_;
  PluginOptions plugins_;
  bool hot_ = false;
  StoppingLimits stopping_;
  const CLI::Option* min_samples_ = nullptr;
};

/// The problems the options name; the default sweep where they name none, and besides them where
/// the preset "default" is given; with --op alone its problems of that operation. Throws
/// Error(bad_input) where it has none of it.
std::vector<Problem> problems_of(const AxisOptions& axes, const DeviceInfo& device);

}  // namespace gdn::cli
