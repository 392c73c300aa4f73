// The options that describe a grid, shared by verify, bench and sweep: one option per Problem field
// (--heads 16/32,16/64 --seq 4x8192 ...), --op, --preset, --problem and --case.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "harness/problems/grid.h"

namespace gdn::cli {

class AxisOptions {
 public:
  /// Adds the options in groups of their own in --help.
  void add_to(CLI::App& app);
  /// The axes alone, where something else says which problems they change.
  void add_axes_to(CLI::App& app);
  /// Throws Error(bad_input).
  GridSpec spec() const;
  /// Values of the axes given. Throws Error(bad_input).
  std::map<std::string, std::vector<std::string>> values() const;

 private:
  std::string operation_;  ///< empty: not given
  std::vector<std::string> presets_;
  std::vector<std::string> problems_;
  std::vector<std::string> cases_;
  struct Axis {
    std::string text;  ///< comma list as typed
    const CLI::Option* option = nullptr;
  };
  std::map<std::string, Axis> axes_;  ///< by field key
};

}  // namespace gdn::cli
