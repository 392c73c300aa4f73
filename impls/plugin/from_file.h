// What tells an implementation of a shared library from those of this build.
#pragma once

#include <string>

namespace gdn {

class FromFile {
 public:
  virtual ~FromFile() = default;
  /// SHA-256 of the file's bytes, as sha256sum prints it.
  virtual const std::string& file_hash() const = 0;
};

}  // namespace gdn
