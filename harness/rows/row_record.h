// A row as a packed record of an HDF5 compound type: columns in the order of row_columns(), texts of
// fixed length.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/files/hdf5_handle.h"
#include "harness/rows/row.h"

namespace gdn {

class RecordLayout {
 public:
  /// Every column, each text column wide enough for every row.
  static RecordLayout for_rows(const std::vector<Row>& rows);
  /// The columns that /rows of a file has, checked against what they must be. Those in which files of
  /// "gdn-rows/1" had their errors become lines of Row::errors. Throws Error(bad_input) naming `path`.
  static RecordLayout of_dataset(const std::string& path, hid_t dataset);

  std::size_t bytes() const { return bytes_; }
  /// Whether it has every column, and room for the row's texts.
  bool holds(const Row& row) const;
  Hdf5Handle memory_type() const;
  void pack(const Row& row, std::byte* record) const;
  Row unpack(const std::byte* record) const;

 private:
  enum class Kind { text, real, integer };
  struct Field {
    RowColumn column;
    Kind kind;
    std::size_t offset;
    std::size_t bytes;  // of a text: its capacity
  };
  void add(const RowColumn& column, Kind kind, std::size_t bytes);
  static Kind kind_of(const RowColumn& column);
  static Hdf5Handle type_of(const Field& field);

  std::vector<Field> fields_;
  std::size_t bytes_ = 0;
  bool complete_ = false;  // has every column of row_columns(), and no other
  bool has_legacy_errors_ = false;
};

/// A string type of fixed length, UTF-8, padded with zeros.
Hdf5Handle fixed_string_type(std::size_t bytes);

}  // namespace gdn
