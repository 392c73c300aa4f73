// The tables of the command line and of papers, by name: each a pivot of rows with its selection.
#pragma once

#include <string>
#include <vector>

#include "harness/row.h"
#include "harness/table.h"

namespace gdn {

/// The forms by name:
///   summary     a table per problem, one line per implementation: chunk, time, throughput, rates,
///   errors throughput  Kt/s, implementation by length x batch at constant tokens (2Kx16 .. 16Kx2)
///   chunk       time in ms, implementation by chunk size
///   heads       Kt/s, heads by implementation
///   errors      errors in units of the rounding floor, implementation, dtype and shape by gates
///   rows        every row, every column
/// Throws Error(bad_input) with the nearest name, or if no row fits the form.
std::vector<Table> table_form(const std::string& form, const std::vector<Row>& rows);
std::vector<std::string> table_form_names();

}  // namespace gdn
