// TokenRows: where an array [channels, T] lies whose tokens are in rows, as [B, channels, L] has them. Plain
// C++ without other headers of the project: device code includes it.
#pragma once

#include <cstdint>

namespace gdn {

struct TokenRows {
  std::int64_t channel_stride = 0;  ///< elements from one channel to the next
  std::int64_t length = 0;          ///< tokens of a row, which lie side by side; of all tokens: T
  std::int64_t row_stride = 0;      ///< elements from one row to the next

  constexpr std::int64_t at(std::int64_t channel, std::int64_t token) const {
    return channel * channel_stride + token / length * row_stride + token % length;
  }
  /// How many tokens lie side by side from this one on.
  constexpr std::int64_t tokens_from(std::int64_t token) const { return length - token % length; }
};

}  // namespace gdn
