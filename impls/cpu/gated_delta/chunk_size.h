// The chunk sizes of the CPU's chunkwise forms.
#pragma once

#include <cstdint>
#include <string>

#include "interface/implementation.h"

namespace gdn::cpu {

inline constexpr std::int64_t kSmallestChunk = 16, kLargestChunk = 256;

// Of 16, 32, 48, 64, 96 and 128, the quickest or within 2% of it at head dims from 64x64 to
// 256x256.
inline constexpr std::int64_t kDefaultChunk = 32;

inline Support supports_chunk(const Problem& problem) {
  if (problem.chunk != 0 && (problem.chunk < kSmallestChunk || problem.chunk > kLargestChunk)) {
    return Support::no("chunk=" + std::to_string(problem.chunk) + " is not in " +
                       std::to_string(kSmallestChunk) + ".." + std::to_string(kLargestChunk));
  }
  return Support::yes();
}

inline std::int64_t chunk_of(const Problem& problem) {
  return problem.chunk == 0 ? kDefaultChunk : problem.chunk;
}

}  // namespace gdn::cpu
