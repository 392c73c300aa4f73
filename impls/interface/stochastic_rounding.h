// Stochastic rounding of states to 16 bits (docs/contract.md, section 1.10): the random numbers and what is done with
// them, in integers alone, so that every backend's device code and the host make the same of them. Plain C++ without
// other headers of the project.
//
// Random numbers are Philox4x32-7 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011),
// the shortest of its kind that passes every test there.
#pragma once

#include <cstdint>

namespace gdn {

/// Neighbouring elements of a row that one block of random numbers serves.
inline constexpr int kRoundingGroup = 8;

/// 16 random bits for each of the elements of a group.
struct RoundingBits {
  std::uint32_t words[kRoundingGroup / 2];

  /// For element i of the group, in the low bits. By choices, not by an index, for which words would go to memory.
  constexpr std::uint32_t of(int i) const {
    const std::uint32_t lower = i & 4 ? words[2] : words[0];
    const std::uint32_t upper = i & 4 ? words[3] : words[1];
    const std::uint32_t word = i & 2 ? upper : lower;
    return (i & 1 ? word >> 16 : word) & 0xffffu;
  }
};

/// Philox4x32-7 of the counter (group, 0, 0, 0) by the key (seed, 0).
constexpr RoundingBits rounding_bits(std::uint32_t seed, std::uint32_t group) {
  std::uint32_t c0 = group, c1 = 0, c2 = 0, c3 = 0;
  std::uint32_t k0 = seed, k1 = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
  for (int round = 0; round < 7; ++round) {
    const std::uint64_t first = std::uint64_t{0xd2511f53u} * c0;
    const std::uint64_t second = std::uint64_t{0xcd9e8d57u} * c2;
    c0 = static_cast<std::uint32_t>(second >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(second);
    c2 = static_cast<std::uint32_t>(first >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(first);
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

// With |x| between its neighbours in the type, a fraction f of the way from the lower one to the upper, the upper one
// is taken where floor(2^16 f) + random >= 2^16: with probability f, to the 2^-16 that 16 bits have. A value of the
// type stays as it is, and so do infinities; a NaN stays one. `bits` are those of a float32.

constexpr std::uint16_t round_to_bfloat16(std::uint32_t bits, std::uint32_t random) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + random) >> 16);
}

// By choices alone, without a branch: the lanes of a warp hold numbers of every kind.
constexpr std::uint16_t round_to_float16(std::uint32_t bits, std::uint32_t random) {
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // From 2^-14 on: normal numbers, of whose fraction 13 bits go.
  const std::uint32_t normal = ((magnitude + (random >> 3)) >> 13) - (112u << 10);
  // Below: multiples of 2^-24. The mantissa is one of 2^(exponent - 150), of which 2^16 parts make a step; more than 40
  // places leave nothing. Seven places go the other way first, so that 32 bits hold what remains.
  const std::uint32_t places = 126u - (magnitude >> 23);
  const std::uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const std::uint32_t shift = places - 9u < 31u ? places - 9u : 31u;
  const std::uint32_t small = (((mantissa << 7) >> shift) + random) >> 16;
  const std::uint32_t large = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;  // 65536 and above
  const std::uint32_t finite = magnitude < 0x38800000u ? small : normal;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) |
                                    (magnitude < 0x47800000u ? finite : large));
}

}  // namespace gdn
