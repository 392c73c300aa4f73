// Tables of papers, each with the sweep that fills it: `gdnbench table --preset NAME` measures and
// prints. Shapes are a GPU's, and smaller ones of the same form for CPUs and emulators.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "interface/device.h"
#include "interface/implementation.h"

namespace gdn {

/// Axis (a key of problem_fields()) -> its values.
using TableAxes = std::map<std::string, std::vector<std::string>>;

struct TablePreset {
  std::string name;
  std::string help;  ///< what it shows, and whose form it has
  std::string form;  ///< of table_form_names()
  TableAxes gpu;
  TableAxes cpu;
  std::vector<std::string> forms;  ///< of implementations, where none are named; empty: all
  bool timed = true;               ///< false: rows of mode "verify", errors only
};

const std::vector<TablePreset>& table_presets();
/// Throws Error(bad_input) with the nearest name.
const TablePreset& find_table_preset(const std::string& name);

/// The problems of the preset on a device; `overrides` win axis by axis. Throws Error(bad_input).
std::vector<Problem> table_problems(const TablePreset& preset, const DeviceInfo& device,
                                    const TableAxes& overrides);

/// Those of the preset's forms.
std::vector<const Implementation*> implementations_of(
    const TablePreset& preset, const std::vector<const Implementation*>& implementations);

}  // namespace gdn
