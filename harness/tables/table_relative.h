// Tables that hold rows to other rows of the same sweep: speed-ups and overheads. Only rows of one
// device and cache mode are compared; a row without its counterpart has an empty cell.
#pragma once

#include <vector>

#include "harness/rows/row.h"
#include "harness/tables/table.h"

namespace gdn {

/// Chunkwise and fused implementations over the quickest recurrent one on the same problem, by
/// length and head dim: time of the recurrent form over time of the row, so that 2 is twice as
/// fast. Throws Error(bad_input) if no row has a recurrent counterpart.
std::vector<Table> speedup_form(const std::vector<Row>& rows);

/// What the delta rule and the decay cost: Kt/s of each variant, and time over that of Gated
/// DeltaNet, by implementation and shape. Throws Error(bad_input) if there is but one variant.
std::vector<Table> updates_form(const std::vector<Row>& rows);

/// What n Householder steps per token cost (DeltaProduct): time, and time over that of n = 1, by
/// implementation and shape. Throws Error(bad_input) if all rows have one n.
std::vector<Table> steps_form(const std::vector<Row>& rows);

}  // namespace gdn
