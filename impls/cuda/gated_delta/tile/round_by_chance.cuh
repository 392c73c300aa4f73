// A word of a state rounded by chance: what interface/stochastic_rounding.h defines, element for element, by fewer
// instructions where a word holds nothing special.
//
// Bound by: instructions. Seven rounds of Philox serve eight elements, and each is rounded, beside the 16 bits of
// memory traffic that an element is.
//
// Reached, H200, 512 sequences of one token, 16/32 heads of 128, states in vk / kv: bfloat16 .332 / .366 ms where
// rounding to nearest takes .278 / .302; with ten rounds, element by element, it was .386 / .440. float16 takes
// .536 / .550, as it did so (.543 / .530), where nearest takes .277 / .297 (data/measured/h200-2026-11-27). One number
// below 2^-14 among the 256 of a warp's word, and all of them go the definition's way, with a branch for each kind: how
// often that is was not counted.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/target.h"
#include "interface/stochastic_rounding.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

__device__ __forceinline__ std::uint32_t upper_halves(std::uint32_t low, std::uint32_t high) {
  return low >> 16 | (high & 0xffff0000u);
}

/// Pairs of float16: normal ones below the largest number. A pair of `random` words' halves is added below the
/// digits that stay, and the exponent's bias goes with the same addition.
class PairsOfFloat16 {
 public:
  __device__ __forceinline__ std::uint32_t round(float low, float high, std::uint32_t random) {
    constexpr std::uint32_t kRebias = 0u - (112u << 23);
    const std::uint32_t l = __float_as_uint(low) + (random << 16 >> 19) + kRebias;
    const std::uint32_t h = __float_as_uint(high) + (random >> 19) + kRebias;
    high_bits_ |= l | h;
    const std::uint32_t pair = upper_halves(in_upper_half(l), in_upper_half(h));
    const std::uint32_t magnitudes = pair & 0x7fff7fffu;
    // Bit 15 of a half: from 0x7bff on, the largest number; and up to 0x0400, 2^-14, which smaller ones may have
    // been rounded to.
    beyond_ |= (magnitudes + 0x04010401u) | ~((magnitudes | 0x80008000u) - 0x04010401u);
    return pair;
  }
  /// Whether a pair so far held a number that is not of these: then all of them are to be rounded otherwise.
  __device__ __forceinline__ bool is_special() const {
    return ((high_bits_ & 0x70000000u) | (beyond_ & 0x80008000u)) != 0;
  }

 private:
  static __device__ __forceinline__ std::uint32_t in_upper_half(std::uint32_t bits) {
    return (bits << 3 & 0x7fffffffu) | (bits & 0x80000000u);
  }
  std::uint32_t high_bits_ = 0;  ///< of exponents that float16 does not have
  std::uint32_t beyond_ = 0;
};

/// Pairs of bfloat16: all but NaN and infinities.
class PairsOfBfloat16 {
 public:
  __device__ __forceinline__ std::uint32_t round(float low, float high, std::uint32_t random) {
    not_finite_ = fmaf(low, 0.0f, fmaf(high, 0.0f, not_finite_));
    return upper_halves(__float_as_uint(low) + (random & 0xffffu),
                        __float_as_uint(high) + (random >> 16));
  }
  __device__ __forceinline__ bool is_special() const { return !(not_finite_ == 0.0f); }

 private:
  float not_finite_ = 0;  ///< NaN as soon as a number is not finite
};

/// A group of elements, in pairs.
template <typename State>
__device__ __forceinline__ void round_by_chance(const float (&elements)[kRoundingGroup],
                                                const RoundingBits& random,
                                                std::uint32_t (&pairs)[kRoundingGroup / 2]) {
  constexpr bool kIsFloat16 = std::is_same_v<State, __half>;
  std::conditional_t<kIsFloat16, PairsOfFloat16, PairsOfBfloat16> rounding;
#pragma unroll
  for (int i = 0; i < kRoundingGroup / 2; ++i) {
    pairs[i] = rounding.round(elements[2 * i], elements[2 * i + 1], random.words[i]);
  }
  if (!rounding.is_special()) return;
  const auto half_of = [&](int i) -> std::uint32_t {
    const std::uint32_t bits = __float_as_uint(elements[i]);
    return kIsFloat16 ? round_to_float16(bits, random.of(i))
                      : round_to_bfloat16(bits, random.of(i));
  };
#pragma unroll
  for (int i = 0; i < kRoundingGroup / 2; ++i) {
    pairs[i] = half_of(2 * i) | half_of(2 * i + 1) << 16;
  }
}

#endif  // __CUDACC__

}  // namespace gdn::GDN_CUDA_TARGET
