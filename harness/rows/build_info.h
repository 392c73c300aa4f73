// What this binary was built from: written in every row.
#pragma once

#include <string>

namespace gdn {

/// SHA-256 over the kernel, reference and harness sources as they were at build time (tests left
/// out): the same for the same sources, whatever the compiler or machine.
std::string source_hash();
/// The Git commit of the sources at build time, 40 hexadecimal digits, "+changes" behind it where they
/// differed from it; empty where they were built without Git.
std::string source_commit();
/// "0.1.0".
std::string library_version();

}  // namespace gdn
