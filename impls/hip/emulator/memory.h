// The memories of the emulated card. Global addresses are host addresses; only registered ranges
// may be touched. LDS knows, per half dword, which waves wrote and read it since the last barrier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gdn::gfx906 {

struct MemoryRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  ///< one past the end
  bool holds(std::uint64_t begin, std::uint64_t end) const { return begin >= first && end <= last; }
};

/// One workgroup's LDS.
class LocalMemory {
 public:
  /// Contents undefined, no accesses recorded.
  void reset(std::uint32_t bytes);
  std::uint32_t bytes() const { return static_cast<std::uint32_t>(data_.size()); }
  std::uint8_t* data() { return data_.data(); }
  bool in_bounds(std::uint32_t address, std::uint32_t size) const {
    return static_cast<std::uint64_t>(address) + size <= data_.size();
  }

  /// Every wave passed a barrier: accesses before it are ordered before those after it.
  void next_interval();

  /// Records an access; true if it races with another wave's. `address` in bounds.
  bool touch(std::uint32_t address, std::uint32_t size, int wave, bool write) {
    bool race = false;
    for (std::uint32_t half = address / 2; half <= (address + size - 1) / 2; ++half) {
      race |= touch_half(accesses_[half], wave, write);
    }
    return race;
  }
  bool defined(std::uint32_t address, std::uint32_t size) const {
    for (std::uint32_t half = address / 2; half <= (address + size - 1) / 2; ++half) {
      if (!written_[half]) return false;
    }
    return true;
  }
  void mark_defined(std::uint32_t address, std::uint32_t size, bool defined) {
    for (std::uint32_t half = address / 2; half <= (address + size - 1) / 2; ++half) {
      written_[half] = defined;
    }
  }
  /// Who else touched the location in this interval, in words.
  std::string describe(std::uint32_t address) const;

 private:
  struct Access {
    std::uint32_t interval = 0;
    std::uint16_t writer = 0;   ///< 1 + wave; 0 = nobody in this interval
    std::uint16_t readers = 0;  ///< bit w: wave w
  };
  bool touch_half(Access& access, int wave, bool write) const {
    if (access.interval != interval_) access = {interval_, 0, 0};
    const auto bit = static_cast<std::uint16_t>(1u << wave);
    const bool race = (access.writer != 0 && access.writer != wave + 1) ||
                      (write && (access.readers & static_cast<std::uint16_t>(~bit)) != 0);
    if (write) {
      access.writer = static_cast<std::uint16_t>(wave + 1);
    } else {
      access.readers |= bit;
    }
    return race;
  }
  std::vector<std::uint8_t> data_;
  std::vector<Access> accesses_;       ///< per two bytes
  std::vector<std::uint8_t> written_;  ///< per two bytes
  std::uint32_t interval_ = 1;
};

}  // namespace gdn::gfx906
