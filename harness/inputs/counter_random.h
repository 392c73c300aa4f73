// Counter-based random numbers: value i of a stream is a pure function of (seed, stream, i), so any
// thread can make any part of an array and the result depends on neither the number of threads nor
// the order. 64 bits per counter: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) read at a random
// place of its period, which the seed and the stream's name choose.
//
// Everything is integer arithmetic or IEEE +, -, *, / and sqrt without contraction (the CMake
// target forbids fused multiply-add in these sources); logarithm and exponential are our own
// series. So a seed gives the same bits on every machine and with every C library.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace gdn {

constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

/// One named stream of 64-bit words: stream "key" of seed 1 is unrelated to stream "value" of it.
class CounterStream {
 public:
  CounterStream(std::uint64_t seed, std::string_view name) {
    std::uint64_t hash = mix64(seed + kGolden);
    for (const char c : name) hash = mix64(hash + kGolden + static_cast<unsigned char>(c));
    key_ = hash;
  }
  std::uint64_t bits(std::uint64_t counter) const { return mix64(key_ + kGolden * (counter + 1)); }
  /// Uniform in the open interval (0, 1), a multiple of 2^-53.
  double uniform(std::uint64_t counter) const {
    return (static_cast<double>(bits(counter) >> 12) + 0.5) * 0x1.0p-52;
  }
  /// Uniform integer in [0, bound); the bias of the multiplication, bound / 2^64, does not matter.
  std::uint64_t below(std::uint64_t counter, std::uint64_t bound) const {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(bits(counter)) * bound) >>
                                      64);
  }

 private:
  static constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ull;
  std::uint64_t key_ = 0;
};

/// ln(x) for finite x > 0: mantissa to [sqrt(1/2), sqrt(2)), then the series of atanh.
inline double portable_ln(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);  // |s| < 0.1716
  const double s2 = s * s;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return 2 * s * sum + exponent * 0.69314718055994531;
}

/// exp(x); 0 below the smallest double, +inf above the largest.
inline double portable_exp(double x) {
  if (!(x > -746)) return x != x ? x : 0.0;
  if (x > 710) return HUGE_VAL;
  const double k = std::floor(x * 1.4426950408889634 + 0.5);
  // ln 2 in two parts, the first with 21 trailing zero bits, so that k * high is exact.
  const double r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
  double sum = 1;
  for (int n = 14; n >= 1; --n) sum = 1 + r * sum / n;
  return std::ldexp(sum, static_cast<int>(k));
}

/// exp(x) - 1 without cancellation near 0.
inline double portable_expm1(double x) {
  if (x < -0.5 || x > 0.5) return portable_exp(x) - 1;
  double sum = 1;
  for (int n = 18; n >= 2; --n) sum = 1 + x * sum / n;
  return x * sum;
}

/// ln(1 + x) for x > -1 without cancellation near 0.
inline double portable_log1p(double x) {
  if (x < -0.25 || x > 0.25) return portable_ln(1 + x);
  const double s = x / (2 + x);
  const double s2 = s * s;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return 2 * s * sum;
}

/// Two independent N(0, 1) values from one 64-bit word (Box and Muller 1958): radius from 23 bits,
/// so |z| < 5.8; angle from the other 32.
inline void normal_pair(std::uint64_t bits, float* first, float* second) {
  // u in (0, 1), an odd multiple of 2^-24, exact in float32; ln u as in portable_ln.
  const float u = static_cast<float>(2 * static_cast<std::int32_t>(bits >> 41) + 1) * 0x1.0p-24f;
  const std::uint32_t u_bits = std::bit_cast<std::uint32_t>(u);
  const std::int32_t raised = static_cast<std::int32_t>(u_bits) - 0x3F3504F3;  // sqrt(1/2)
  const float exponent = static_cast<float>(raised >> 23);
  const float m = std::bit_cast<float>(
      static_cast<std::uint32_t>((raised & 0x007FFFFF) + 0x3F3504F3));  // [sqrt(1/2), sqrt(2))
  const float s = (m - 1.0f) / (m + 1.0f);
  const float s2 = s * s;
  const float ln_m =
      2.0f * s * (1.0f + s2 * (1.0f / 3 + s2 * (1.0f / 5 + s2 * (1.0f / 7 + s2 * (1.0f / 9)))));
  const float radius = std::sqrt(-2.0f * (ln_m + exponent * 0.693147181f));

  // The angle: two bits choose the quadrant, 24 the position in it, [-pi/4, pi/4).
  const std::uint32_t turn = static_cast<std::uint32_t>(bits);
  const std::int32_t position = static_cast<std::int32_t>((turn >> 6) & 0x00FFFFFF) - 0x00800000;
  const float a = static_cast<float>(position) * (1.57079633f * 0x1.0p-24f);
  const float a2 = a * a;
  const float sine =
      a * (1.0f - a2 * (1.0f / 6 - a2 * (1.0f / 120 - a2 * (1.0f / 5040 - a2 / 362880))));
  const float cosine =
      1.0f - a2 * (1.0f / 2 - a2 * (1.0f / 24 - a2 * (1.0f / 720 - a2 * (1.0f / 40320))));
  const bool swapped = (turn >> 31) != 0;
  const float sign = ((turn >> 30) & 1u) != 0 ? -1.0f : 1.0f;
  *first = radius * (swapped ? sine : cosine) * sign;
  *second = radius * (swapped ? -cosine : sine) * sign;
}

/// `count` values N(0, 1) from counters first_counter, first_counter + 1, ...: two per counter.
void fill_normal(const CounterStream& stream, std::uint64_t first_counter, float* destination,
                 std::int64_t count);

}  // namespace gdn
