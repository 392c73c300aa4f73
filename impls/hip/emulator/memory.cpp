#include "hip/emulator/memory.h"

namespace gdn::gfx906 {

void LocalMemory::reset(std::uint32_t bytes) {
  // The pattern is a quiet NaN in float32 and in float16: undefined contents never look like
  // numbers.
  data_.assign(bytes, 0xff);
  accesses_.assign(bytes / 2 + 1, Access{});
  written_.assign(bytes / 2 + 1, 0);
  interval_ = 1;
}

void LocalMemory::next_interval() { ++interval_; }

std::string LocalMemory::describe(std::uint32_t address) const {
  const Access& access = accesses_[address / 2];
  std::string text = "LDS byte " + std::to_string(address) + ", in the same barrier interval ";
  if (access.writer != 0)
    text += "written last by wave " + std::to_string(access.writer - 1) + ", ";
  text += "read by waves";
  for (int wave = 0; wave < 16; ++wave) {
    if ((access.readers >> wave & 1) != 0) text += " " + std::to_string(wave);
  }
  return text + (access.readers == 0 ? " none" : "");
}

}  // namespace gdn::gfx906
