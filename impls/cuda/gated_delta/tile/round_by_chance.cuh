// A word of a state rounded by chance: what interface/stochastic_rounding.h defines, element for element, by fewer
// instructions where a word holds nothing special.
//
// Bound by: instructions. Seven rounds of Philox serve eight elements, and each is rounded, beside the 16 bits of
// memory traffic that an element is.
//
// Reached, H200, 512 sequences of one token, 16/32 heads of 128, states in vk / kv: bfloat16 .331 / .366 ms where
// rounding to nearest takes .278 / .301; with ten rounds, element by element, it was .386 / .440. float16 takes
// .376 / .391, where nearest takes .277 / .297, and took .536 / .550 while numbers below 2^-14 were rounded element by
// element (data/measured/h200-2026-11-27): one of them among the 256 of a warp's word sent all of it there.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/ptx.cuh"
#include "cuda/target.h"
#include "interface/stochastic_rounding.h"

namespace gdn::GDN_CUDA_TARGET {

#ifdef __CUDACC__

__device__ __forceinline__ std::uint32_t upper_halves(std::uint32_t low, std::uint32_t high) {
  return low >> 16 | (high & 0xffff0000u);
}

/// Pairs of float16: numbers below its largest one, those below its normal ones included. With 16 random bits as a
/// fraction of the step to the next float16, what they lift is what truncation no longer takes away.
class PairsOfFloat16 {
 public:
  __device__ __forceinline__ std::uint32_t round(float low, float high, std::uint32_t random) {
    const std::uint32_t pair =
        halves_toward_zero(lifted(low, random & 0xffffu), lifted(high, random >> 16));
    beyond_ |= pair + 0x04010401u;  // bit 15 of a half: from 0x7bff on, the largest number
    return pair | (upper_halves(__float_as_uint(low), __float_as_uint(high)) & 0x80008000u);
  }
  /// Whether a pair so far held a number that is not of these: then all of them are to be rounded otherwise.
  __device__ __forceinline__ bool is_special() const { return (beyond_ & 0x80008000u) != 0; }

 private:
  /// |x| + random 2^-16 steps, toward zero: of a normal number's 13 digits below the step none is lost that decides.
  static __device__ __forceinline__ float lifted(float x, std::uint32_t random) {
    const float fraction = __uint_as_float(0x3e000000u | random) - 0.125f;  // random 2^-26
    const std::uint32_t exponent = __float_as_uint(x) & 0x7f800000u;
    const std::uint32_t power = exponent > 0x38800000u ? exponent : 0x38800000u;  // 2^-14 at least
    return fma_toward_zero(fraction, __uint_as_float(power), fabsf(x));  // a step is 2^-10 of it
  }
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
