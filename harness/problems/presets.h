// Named presets: values for the axes of a grid. A preset sets some axes (model heads and dims,
// sequence sets, dtypes, gate regimes); several can be combined, later ones and the command line
// winning axis by axis.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gdn {

struct Preset {
  std::string name;
  std::string help;  ///< what it is and where its numbers come from
  /// Axis (a key of problem_fields()) and its values.
  std::vector<std::pair<std::string, std::vector<std::string>>> axes;
};

const std::vector<Preset>& presets();
/// Throws Error(bad_input) with the nearest name.
const Preset& find_preset(const std::string& name);

}  // namespace gdn
