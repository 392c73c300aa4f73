// 64 bits that tell whether bytes changed: the same on the host and, summed by many threads, where
// the bytes lie.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define GDN_HOST_AND_DEVICE __host__ __device__
#else
#define GDN_HOST_AND_DEVICE
#endif

namespace gdn {

/// What the 8-byte word at this index adds to a fingerprint. One to one in the word, so that a
/// change of one word always shows; changes of several cancel with a chance of 2^-64.
GDN_HOST_AND_DEVICE inline std::uint64_t mixed_word(std::uint64_t word, std::uint64_t index) {
  std::uint64_t mixed = word + (index + 1) * 0x9E3779B97F4A7C15ull;
  mixed = (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93ull;
  mixed = (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93ull;
  return mixed ^ (mixed >> 32);
}

/// The sum of mixed_word over `bytes` bytes at any alignment, the last word filled up with zeros.
/// Of parts whose words are counted on from `first_word`, the sum is the fingerprint of the whole.
std::uint64_t fingerprint_of(const void* data, std::int64_t bytes, std::int64_t first_word = 0);

}  // namespace gdn
