#include "harness/run/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace gdn {

std::int64_t host_memory_bytes() {
  static const std::int64_t bytes = [] {
    const std::int64_t installed =
        static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
    std::int64_t limit = 0;  // "max" where the container has none: not a number
    if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit) return std::min(installed, limit);
    return installed;
  }();
  return bytes;
}

std::string in_gib(double bytes) {
  char text[64];
  std::snprintf(text, sizeof(text), bytes < 1e15 ? "%.2f GiB" : "%.3g GiB", bytes / (1 << 30));
  return text;
}

std::string exceeds_host(long double bytes) {
  const std::int64_t has = host_memory_bytes();
  if (bytes <= static_cast<long double>(has)) return "";
  return in_gib(static_cast<double>(bytes)) + ", this machine has " +
         in_gib(static_cast<double>(has));
}

}  // namespace gdn
