// The two 8-bit floating-point types of the Open Compute Project's specification (OFP8, revision 1.0,
// 2023), by integers alone, so that hosts and devices of every kind give the same bits. Rounding is to
// nearest even and does not saturate: what lies beyond the largest finite value becomes NaN in e4m3,
// which has no infinity, and infinity in e5m2, as PyTorch's conversions do.
#pragma once

#include <bit>
#include <cstdint>

namespace gdn {

/// kExponentBits and kFractionBits besides a sign; kHasInfinity: the largest exponent is kept for
/// infinity and NaN, else for one NaN alone.
template <int kExponentBits, int kFractionBits, bool kHasInfinity>
struct Float8 {
  static_assert(1 + kExponentBits + kFractionBits == 8);
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr std::uint32_t kMagnitude = 0x7f;
  static constexpr std::uint32_t kInfinity = ((1u << kExponentBits) - 1) << kFractionBits;
  static constexpr std::uint32_t kNaN = kMagnitude;
  static constexpr std::uint32_t kLargest = (kHasInfinity ? kInfinity : kNaN) - 1;

  static constexpr float to_float(std::uint8_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80) << 24;
    const std::uint32_t magnitude = bits & kMagnitude;
    if (magnitude > kLargest) {
      const bool infinite = kHasInfinity && magnitude == kInfinity;
      return std::bit_cast<float>(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
    }
    const std::uint32_t exponent = magnitude >> kFractionBits;
    std::uint32_t fraction = magnitude & ((1u << kFractionBits) - 1);
    if (exponent > 0) {
      return std::bit_cast<float>(sign | ((exponent + 127 - kBias) << 23) |
                                  (fraction << (23 - kFractionBits)));
    }
    if (fraction == 0) return std::bit_cast<float>(sign);
    // Below the normal numbers of 8 bits, which are normal in 32.
    std::uint32_t lowered = 0;
    while ((fraction >> kFractionBits) == 0) {
      fraction <<= 1;
      ++lowered;
    }
    fraction &= (1u << kFractionBits) - 1;
    return std::bit_cast<float>(sign | ((128 - kBias - lowered) << 23) |
                                (fraction << (23 - kFractionBits)));
  }

  static constexpr std::uint8_t from_float(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 24) & 0x80, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | kNaN);
    const int exponent = static_cast<int>(magnitude >> 23) - 127;
    // Bits of the significand that go: all below the fraction, and below the smallest exponent more.
    const int lost = 23 - kFractionBits + (exponent < 1 - kBias ? 1 - kBias - exponent : 0);
    std::uint32_t rounded = 0;
    if (lost < 32) {
      const std::uint32_t significand =
          exponent < -126 ? 0 : (magnitude & 0x7fffffu) | 0x800000u;  // float32's own are too small
      const std::uint32_t kept = significand >> lost, rest = significand & ((1u << lost) - 1),
                          half = 1u << (lost - 1);
      rounded = kept + (rest > half || (rest == half && (kept & 1u) != 0) ? 1 : 0);
      // The leading one adds itself to the exponent; a carry of the rounding likewise.
      if (exponent >= 1 - kBias) {
        rounded += static_cast<std::uint32_t>(exponent + kBias - 1) << kFractionBits;
      }
    }
    if (rounded > kLargest) rounded = kHasInfinity ? kInfinity : kNaN;
    return static_cast<std::uint8_t>(sign | rounded);
  }
};

using Float8E4M3 = Float8<4, 3, false>;
using Float8E5M2 = Float8<5, 2, true>;

}  // namespace gdn
