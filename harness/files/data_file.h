// Where the program finds the files it comes with: baselines and the real trace. Suites, presets and
// known limits are compiled in.
#pragma once

#include <string>

namespace gdn {

/// The path of data/NAME below the current folder, the executable's, the one above that (a build
/// folder in the sources), or share/gdnbench in the one above that (an installed program); empty if it
/// is in none.
std::string find_data_file(const std::string& name);

}  // namespace gdn
