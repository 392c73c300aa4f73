// IndexArray: indices as their owner holds them, int32 or int64, any distance apart. Plain C++ without other
// headers of the project: device code of every backend includes it.
//
// Every index fits 32 bits: Problem::validate and validate(Case) see to it. So the low word of an int64 is
// its value, and one load reads either type.
#pragma once

#include <cstdint>

namespace gdn {

inline constexpr std::int64_t kLargestIndex = (std::int64_t{1} << 31) - 1;

class IndexArray {
 public:
  /// Half of an int64, or an int32.
  using Word [[gnu::may_alias]] = std::int32_t;

  constexpr IndexArray() = default;
  /// None, or dense.
  IndexArray(const std::int64_t* values) : IndexArray(values, 2) {}
  /// `words_apart`: from one index to the next, in units of four bytes; 0 where all are one.
  IndexArray(const void* data, std::int32_t words_apart)
      : words_(static_cast<const Word*>(data)), words_apart_(words_apart) {}

  constexpr std::int64_t operator[](std::int64_t i) const { return *word(i); }
  /// Where the index lies, for loads of a kernel's own.
  constexpr const Word* word(std::int64_t i) const {
    return words_ + std::int64_t{static_cast<std::int32_t>(i)} * words_apart_;
  }
  constexpr explicit operator bool() const { return words_ != nullptr; }

 private:
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "an int64 begins with its low word");
  const Word* words_ = nullptr;
  std::int32_t words_apart_ = 2;
};

}  // namespace gdn
