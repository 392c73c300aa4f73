// What a reader must know of a table's figures to compare them: said under the table where it applies.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/rows/row.h"

namespace gdn {

/// A spread (interquartile range over median) above this is marked: the median of such samples may
/// be off by as much.
inline constexpr double kWideSpread = 0.05;
bool is_wide(double relative_spread);  ///< false of NaN: not measured

/// Notes on these rows in a table that shows the quantities of these names: times whose spread is
/// wide, shares of the compute ceiling above 100 %, TFLOP/s counted with different chunks.
std::vector<std::string> figure_notes(const std::vector<const Row*>& rows,
                                      const std::set<std::string>& quantities);

}  // namespace gdn
