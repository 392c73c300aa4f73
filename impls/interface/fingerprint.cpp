#include "interface/fingerprint.h"

#include <cstring>

namespace gdn {

std::uint64_t fingerprint_of(const void* data, std::int64_t bytes, std::int64_t first_word) {
  const auto* at = static_cast<const unsigned char*>(data);
  const std::int64_t words = bytes / 8;
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, at + 8 * i, 8);
    sum += mixed_word(word, static_cast<std::uint64_t>(first_word + i));
  }
  std::uint64_t last = 0;
  std::memcpy(&last, at + 8 * words, static_cast<std::size_t>(bytes % 8));
  return bytes % 8 == 0 ? sum
                        : sum + mixed_word(last, static_cast<std::uint64_t>(first_word + words));
}

}  // namespace gdn
