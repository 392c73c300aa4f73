#include "hip/emulator/l2_cache.h"

#include <utility>

namespace gdn::gfx906 {

L2Cache::L2Cache(std::uint64_t lines) : entries_(1), capacity_(lines) {
  entries_.reserve(lines + 1);
  slots_.reserve(lines);
}

void L2Cache::unlink(std::uint32_t slot) {
  Entry& entry = entries_[slot];
  entries_[entry.older].newer = entry.newer;
  entries_[entry.newer].older = entry.older;
}

void L2Cache::make_newest(std::uint32_t slot) {
  Entry& entry = entries_[slot];
  entry.newer = 0;
  entry.older = entries_[0].older;
  entries_[entry.older].newer = slot;
  entries_[0].older = slot;
}

void L2Cache::access(std::uint64_t line, bool write) {
  const auto found = slots_.find(line);
  if (found != slots_.end()) {
    ++traffic_.hits;
    unlink(found->second);
    make_newest(found->second);
    entries_[found->second].dirty |= write;
    return;
  }
  if (!write) ++traffic_.lines_read;
  std::uint32_t slot = 0;
  if (entries_.size() <= capacity_) {
    slot = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    slot = entries_[0].newer;  // the oldest
    unlink(slot);
    slots_.erase(entries_[slot].line);
    if (entries_[slot].dirty) ++traffic_.lines_written;
  }
  entries_[slot].line = line;
  entries_[slot].dirty = write;
  make_newest(slot);
  slots_[line] = slot;
}

void L2Cache::flush() {
  for (std::size_t slot = 1; slot < entries_.size(); ++slot) {
    if (entries_[slot].dirty) ++traffic_.lines_written;
  }
  entries_.assign(1, Entry{});
  slots_.clear();
}

L2Cache::Traffic L2Cache::take_traffic() { return std::exchange(traffic_, Traffic{}); }

}  // namespace gdn::gfx906
