// SHA-256 (FIPS 180-4) of a file, so that whoever has a row and a file can tell whether they belong together.
#pragma once

#include <string>
#include <string_view>

namespace gdn {

/// 64 hexadecimal digits.
std::string sha256(std::string_view bytes);
/// Throws Error(bad_input) naming a file that cannot be read.
std::string file_hash(const std::string& path);

}  // namespace gdn
