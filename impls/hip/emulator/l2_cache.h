// The card's second-level cache, as the cost model sees it: 4 MB of 64-byte lines shared by all
// CUs, write-back, least recently used out first. Fully associative, so that what hits does not
// depend on where buffers happen to lie; the real one has 16 ways per set and conflicts this one
// does not know. A written line is not read first (the real one keeps byte masks).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace gdn::gfx906 {

inline constexpr std::uint64_t kCacheLineBytes = 64;

class L2Cache {
 public:
  struct Traffic {
    std::uint64_t hits = 0;
    std::uint64_t lines_read = 0;     ///< from memory: reads that missed
    std::uint64_t lines_written = 0;  ///< to memory: dirty lines that left
  };

  explicit L2Cache(std::uint64_t lines);
  void access(std::uint64_t line, bool write);
  /// Writes back what is dirty and forgets everything.
  void flush();
  /// Since the last take_traffic().
  Traffic take_traffic();

 private:
  struct Entry {
    std::uint64_t line = 0;
    std::uint32_t newer = 0;
    std::uint32_t older = 0;
    bool dirty = false;
  };
  void unlink(std::uint32_t slot);
  void make_newest(std::uint32_t slot);

  std::vector<Entry> entries_;  ///< entry 0 is the ring's head: newer of it = oldest
  std::uint64_t capacity_;
  std::unordered_map<std::uint64_t, std::uint32_t> slots_;
  Traffic traffic_;
};

}  // namespace gdn::gfx906
