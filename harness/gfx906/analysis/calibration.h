// The cost model held against published figures of the card, by small kernels (calibration.hip).
#pragma once

#include <string>
#include <vector>

namespace gdn::hip {

struct Calibration {
  std::string quantity;
  std::string unit;
  double published_low = 0;  ///< 0: none found
  double published_high = 0;
  std::string source;  ///< key of the list of sources in README.md
  /// A constant of the model was set by this figure: reproduced by construction.
  bool set_by = false;
  double modelled = 0;

  bool within() const { return modelled >= published_low && modelled <= published_high; }
  /// Modelled over the nearer end of the published range, minus 1; 0 within it.
  double miss() const;
};

/// Runs the kernels through the emulator.
std::vector<Calibration> calibrate();
std::string calibration_table(const std::vector<Calibration>& results);

}  // namespace gdn::hip
