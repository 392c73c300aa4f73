// Files that are there as a whole or not at all: written beside the target, in its folder, and
// renamed over it when everything is on disk. Whatever fails on the way, a full disk first of all,
// leaves the earlier file as it was and nothing of the new one.
#pragma once

#include <cstddef>
#include <string>
#include <system_error>

namespace gdn {

/// Why a file at this path could not be replaced as a whole, in words: it is no regular file, or may
/// not be written. Empty if it can be, as far as can be told beforehand.
std::string why_not_replaceable(const std::string& path);

/// A file in the making. It is removed with the object, unless it was put in place before.
class WholeFile {
 public:
  explicit WholeFile(const std::string& path);
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  /// What is to be written: beside the target, with this process's id in its name, and not made yet.
  const std::string& partial() const { return partial_; }
  /// Makes the partial file a copy of the earlier one.
  [[nodiscard]] std::error_code copy_earlier();
  /// Everything on disk and under the target's name, with the earlier file's permissions where there
  /// is one. After an error the earlier file is untouched.
  [[nodiscard]] std::error_code put_in_place();

 private:
  std::string target_;  // what a symbolic link stands for
  std::string partial_;
  bool in_place_ = false;
};

/// Writes a file as a whole; a pipe or a device, which nothing can be renamed over, as it is.
[[nodiscard]] std::error_code write_whole_file(const std::string& path, const void* content,
                                               std::size_t bytes);

}  // namespace gdn
