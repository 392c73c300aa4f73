// One process writes a rows file: two sweeps into one file would measure everything twice.
#pragma once

#include <string>

namespace gdn {

/// Holds FILE.lock, beside the rows file, for as long as it lives: the system's lock on it (flock),
/// which ends with the process however it ends, and in it who holds it. The file is removed when the
/// lock is given back; one that a killed process left behind locks nothing. Reading needs no lock.
class RowsFileLock {
 public:
  /// Throws Error(bad_input) that names the file and the process that holds it, with its host, or
  /// says why it cannot be locked. Where the file system knows no locks, nothing is locked.
  explicit RowsFileLock(const std::string& rows_path);
  ~RowsFileLock();
  RowsFileLock(const RowsFileLock&) = delete;
  RowsFileLock& operator=(const RowsFileLock&) = delete;

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace gdn
