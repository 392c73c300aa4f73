// The tables of the command line and of papers, by name: each a pivot of rows with its selection.
#pragma once

#include <string>
#include <vector>

#include "harness/rows/row.h"
#include "harness/tables/table.h"

namespace gdn {

/// The forms by name:
///   summary     a table per problem, one line per implementation and chunk: time, rates, errors, and
///               why there are none; a spread above 5 % (kWideSpread) is marked *
///   throughput  Kt/s, implementation by batch x length at constant tokens (16x2K .. 2x16K)
///   speedup     chunkwise and fused over recurrent, by length and head dim
///   updates     variants of the recurrence (DeltaNet, gated linear attention, ...): Kt/s and cost
///   steps       DeltaProduct by steps per token: time, and over one step
///   chunk       time, workspace and peak memory, implementation by chunk size
///   heads       Kt/s, heads by implementation
///   errors      errors in units of the rounding floor, implementation, dtype and shape by gates
/// A problem's fields that are the same in all rows of a table are in its title where they are not at
/// their default.
///   rows        every row, every column
/// Throws Error(bad_input) with the nearest name, or if no row fits the form.
std::vector<Table> table_form(const std::string& form, const std::vector<Row>& rows);
std::vector<std::string> table_form_names();
/// Throws Error(bad_input) with the nearest name unless there is such a form.
void require_table_form(const std::string& form);

}  // namespace gdn
