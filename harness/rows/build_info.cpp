#include "harness/rows/build_info.h"

#include "source_hash.h"  // made at build time in the build directory

namespace gdn {

std::string source_hash() { return GDN_SOURCE_HASH; }
std::string source_commit() { return GDN_SOURCE_COMMIT; }
std::string library_version() { return GDN_VERSION; }

}  // namespace gdn
