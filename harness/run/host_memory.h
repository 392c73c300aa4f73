// What this machine's memory holds: asked before sizes that came from outside are allocated. Sizes
// are long double here, which no product of them wraps.
#pragma once

#include <cstdint>
#include <string>

namespace gdn {

/// Memory of this machine, or of the container this process runs in.
std::int64_t host_memory_bytes();

/// As "1.50 GiB".
std::string in_gib(double bytes);

/// Empty if this machine can hold so many bytes, else "1.50 GiB, this machine has 1.00 GiB".
/// What it can hold, an int64 counts.
std::string exceeds_host(long double bytes);

}  // namespace gdn
