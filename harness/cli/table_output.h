// Tables on stdout: in a format for people, or as JSON.
#pragma once

#include <vector>

#include "harness/tables/table.h"

namespace gdn::cli {

/// JSON: [{"title", "notes", "header", "label_columns", "rows"}], every cell a string.
void print_tables(const std::vector<Table>& tables, TableFormat format, bool json);

}  // namespace gdn::cli
