// A group of an HDF5 file, read and written attribute by attribute and array by array. Every fault
// is Error(bad_input), one line: file, group, the attribute or dataset, what was found and what was
// expected. HDF5's own error printing stays silent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/files/hdf5_handle.h"
#include "harness/files/whole_file.h"

namespace gdn {

/// Extents, outermost first; kAnyExtent matches every size.
using Shape = std::vector<std::int64_t>;
inline constexpr std::int64_t kAnyExtent = -1;
/// "[1536, 4]"; kAnyExtent prints as '*'.
std::string shape_text(const Shape& shape);

class GroupReader {
 public:
  GroupReader(const std::string& file, const std::string& group);

  bool has_attribute(const std::string& name) const;
  bool has_dataset(const std::string& name) const;

  std::string string_attribute(const std::string& name) const;
  std::int64_t integer_attribute(const std::string& name, std::int64_t lowest) const;
  double number_attribute(const std::string& name) const;
  std::string string_attribute_or(const std::string& name, const std::string& otherwise) const;
  std::int64_t integer_attribute_or(const std::string& name, std::int64_t lowest,
                                    std::int64_t otherwise) const;

  /// Extents of a dataset that must exist (what the group holds is named where it does not) and have
  /// the rank of `expected` and its fixed extents.
  Shape shape(const std::string& name, const Shape& expected, const std::string& meaning) const;
  /// Elements must be float32 or float64 on disk.
  std::vector<float> floats(const std::string& name, const Shape& expected,
                            const std::string& meaning) const;
  std::vector<double> doubles(const std::string& name, const Shape& expected,
                              const std::string& meaning) const;
  std::vector<std::int64_t> integers(const std::string& name, const Shape& expected,
                                     const std::string& meaning) const;

  /// Throws Error(bad_input): "FILE:/group: what".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  Hdf5Handle open_attribute(const std::string& name) const;
  Hdf5Handle open_dataset(const std::string& name) const;
  /// Elements of a dataset about to be read; fails if this machine cannot hold them.
  std::size_t count_to_read(const std::string& name, const Shape& expected,
                            const std::string& meaning, std::size_t bytes_each) const;
  void read(const std::string& name, bool integers, hid_t memory_type, void* destination) const;

  std::string where_;
  Hdf5Quiet quiet_;
  Hdf5Handle file_;
  Hdf5Handle group_;
};

/// Writes aside (harness/files/whole_file.h): until finish() returns, a file that was there before is
/// untouched, and where it is not reached, nothing of the new one stays.
class GroupWriter {
 public:
  enum class Mode {
    replace_file,  ///< a file of this group alone
    add_group,     ///< to an existing file, or a file made for it; the group must not exist
  };
  GroupWriter(const std::string& file, const std::string& group, Mode mode);

  void attribute(const std::string& name, const std::string& value);
  void attribute(const std::string& name, std::int64_t value);
  void attribute(const std::string& name, double value);
  void dataset(const std::string& name, const Shape& shape, const std::vector<float>& values);
  void dataset(const std::string& name, const Shape& shape, const std::vector<double>& values);
  void dataset(const std::string& name, const Shape& shape,
               const std::vector<std::int64_t>& values);
  void dataset(const std::string& name, const std::vector<std::int64_t>& values);
  /// Everything on disk and in place, or Error: a full disk shows here at the latest. The last call.
  void finish();

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void require_free(const std::string& file, const std::string& group) const;
  void write_attribute(const std::string& name, hid_t type, const void* value);
  void write_dataset(const std::string& name, const Shape& shape, std::size_t count, hid_t type,
                     const void* values);

  std::string where_;
  WholeFile aside_;
  Hdf5Quiet quiet_;
  Hdf5Handle file_;
  Hdf5Handle group_;
};

}  // namespace gdn
