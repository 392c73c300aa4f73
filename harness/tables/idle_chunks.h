// Forms that have no chunks run the same whichever chunk is asked for: what they measured belongs into
// a table once, not once for each chunk of a sweep.
#pragma once

#include <string>
#include <vector>

#include "harness/rows/row.h"

namespace gdn {

/// "gated_delta:heads=1/2,chunk=16,seed=2" -> "gated_delta:heads=1/2,seed=2".
std::string without_chunk(std::string problem);

/// The rows; those of forms without chunks as if none had been asked for, and of several that are then
/// the same (implementation, problem, mode, device) the one measured last, in the place of the first.
std::vector<Row> without_idle_chunks(const std::vector<Row>& rows);

}  // namespace gdn
