// Rows files (HDF5, schema "gdn-rows/2"): one flat table, errors and samples beside it.
//
//   /rows     [R] compound, one member per column of row_columns(); strings of fixed length, UTF-8
//   /errors   [E] compound (row, output, metric, first_token, value): one line for each output and
//             metric of a row, the lines of row r together, [first_error, first_error + error_count);
//             first_token is -1 for the whole output, else where a window of tokens begins
//   /samples  [S] compound (time_ms, clock_mhz); row r owns [first_sample, first_sample +
//             sample_count)
//   attribute schema = "gdn-rows/2" on the root group
//
// What each column holds, with its unit: `gdnbench rows FILE --list-columns`. In Python, two lines
// after the imports make a DataFrame of a table (harness/rows/tests/rows_in_python.py):
//
//   rows = pandas.DataFrame(h5py.File("rows.h5")["rows"][()])
//   rows = rows.apply(lambda c: c.str.decode("utf-8") if c.dtype == object else c)
//
// The same two lines with "errors" make one of the errors, whose column `row` is the row's index.
//
// Versions. Columns are added and keep their meaning: a file written before a column was has its
// default there, readers ignore columns they do not know, and appending to an earlier file writes it
// anew as it would be written now. Files of "gdn-rows/1", whose errors were columns of /rows, are
// read (a test reads data/fixtures/rows_of_0.1.h5). A change of meaning is another schema, which
// earlier readers refuse by name.
//
// Crash safety. A file on disk is valid at every moment, whenever the process is killed and
// whatever fails:
//   - every dataset owns one chunk with room to spare, allocated and filled when the file is
//     written. An append writes into that room and then extends the dataset: first samples and
//     errors, then the row; each extension is one in-place write of one object header;
//   - what does not fit (no room left, a longer string) is written as a whole new file of twice the
//     room beside the old one and renamed over it. A full disk is met there, before the old file is
//     touched. HDF5 composes that file in memory; it reaches the disk with plain checked writes.
// The file is open only during each append, so others may read it meanwhile. One process writes a
// file (harness/rows/rows_file_lock.h, which whoever adds to a file holds): shards of a sweep write a
// file each, and merge_rows joins them.
#pragma once

#include <string>
#include <vector>

#include "harness/rows/row.h"

namespace gdn {

struct StoredRows {
  std::vector<Row> rows;
  std::vector<TimeSample> samples;

  /// Adds a row with its samples, setting first_sample and sample_count.
  void add(Row row, const std::vector<TimeSample>& row_samples);
  bool holds_samples_of(const Row& row) const;
  /// Throws Error(bad_input) where it does not hold them.
  std::vector<TimeSample> samples_of(const Row& row) const;
};

/// Throws Error(bad_input) naming the file and what was expected: missing, not HDF5, truncated,
/// another schema, a column of another type, more entries than this machine can hold, a row whose
/// samples are not there. Columns the file lacks keep their defaults.
StoredRows read_rows(const std::string& path);

/// Replaces the file as a whole, atomically. Throws Error(bad_input) naming the file and the
/// system's reason; an existing file is then untouched. `spare_rows`: room left for appends;
/// without, the file is compressed, and the first append writes it anew.
void write_rows(const std::string& path, const StoredRows& rows, std::int64_t spare_rows = 0);

/// Appends one row, creating the file if there is none; on disk when it returns. Throws as
/// write_rows; the rows stored before are then still readable.
void append_row(const std::string& path, const Row& row, const std::vector<TimeSample>& samples);

/// Throws Error(bad_input) now rather than after the first measurement: the path is no regular
/// file, holds something other than rows, or its folder cannot be written.
void require_appendable(const std::string& path);

/// Rows of all files in order; of rows with the same key and device the one of the latest date
/// stays.
StoredRows merge_rows(const std::vector<std::string>& paths);

}  // namespace gdn
