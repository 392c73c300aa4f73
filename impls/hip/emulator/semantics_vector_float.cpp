// VALU: float32 and float64 arithmetic, conversions and comparisons. IEEE except where the ISA says
// otherwise: v_mad/v_mac and the transcendental instructions flush float32 denormals; the accuracy
// of the latter is not promised by the ISA and modelled as correct rounding (see
// execute_transcendental).
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "hip/emulator/opcode_table.h"

namespace gdn::gfx906 {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;

constexpr float kSmallestNormal = std::numeric_limits<float>::min();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

float flush(float x) { return std::fabs(x) < kSmallestNormal ? std::copysign(0.0f, x) : x; }
float multiply_add_flushed(float a, float b, float c) {
  return flush(flush(flush(a) * flush(b)) + flush(c));
}
double exp2_wide(double x) { return std::exp2(x); }

int exponent_or_zero(float x) { return x == 0 || !std::isfinite(x) ? 0 : std::ilogb(x); }

struct Scaled {
  float value;
  bool flag;
};
/// v_div_scale_f32 (Vega ISA): scales numerator or denominator of a division by 2^+-64 where the
/// Newton iteration would leave the normal range. s0 is the one to scale, s1 = denominator,
/// s2 = numerator.
Scaled div_scale(float s0, float s1, float s2) {
  const auto tiny = [](double x) { return std::fabs(x) < static_cast<double>(kSmallestNormal); };
  const int denominator = exponent_or_zero(s1), numerator = exponent_or_zero(s2);
  if (s2 == 0 || s1 == 0) return {kNaN, false};
  const double reciprocal = 1.0 / static_cast<double>(s1);
  const double quotient = static_cast<double>(s2) / static_cast<double>(s1);
  if (numerator - denominator >= 96) return {s0 == s1 ? std::ldexp(s0, 64) : s0, true};
  if (std::fabs(s1) < kSmallestNormal) return {std::ldexp(s0, 64), false};
  if (tiny(reciprocal) && tiny(quotient)) return {s0 == s1 ? std::ldexp(s0, 64) : s0, true};
  if (tiny(reciprocal)) return {std::ldexp(s0, -64), false};
  if (tiny(quotient)) return {s0 == s2 ? std::ldexp(s0, 64) : s0, true};
  if (numerator <= -104) return {std::ldexp(s0, 64), false};
  return {s0, false};
}
void execute_div_scale(Context& context, Wave& wave, const Instruction& in) {
  LaneBuffer b0, b1, b2, result;
  const auto s0 = read_lanes<float>(context, wave, in, 2, b0, nullptr);
  const auto s1 = read_lanes<float>(context, wave, in, 3, b1, nullptr);
  const auto s2 = read_lanes<float>(context, wave, in, 4, b2, nullptr);
  u64 flags = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const Scaled scaled = div_scale(s0[lane], s1[lane], s2[lane]);
    result.store(lane, scaled.value);
    flags |= static_cast<u64>(scaled.flag) << lane;
  }
  const u64 exec = wave.exec(), defined = s0.defined & s1.defined & s2.defined;
  write_lanes<float>(context, wave, in, result, exec, defined);
  write_scalar64(context, wave, in, in.operand[1].index, flags & exec, defined | ~exec);
}
/// v_div_fmas_f32: the last step of the quotient, with the scaling of v_div_scale taken back in
/// lanes whose flag is set: up for quotients of at least 2, down for small ones.
void execute_div_fmas(Context& context, Wave& wave, const Instruction& in) {
  LaneBuffer b0, b1, b2, result;
  const auto a = read_lanes<float>(context, wave, in, 1, b0, nullptr);
  const auto b = read_lanes<float>(context, wave, in, 2, b1, nullptr);
  const auto c = read_lanes<float>(context, wave, in, 3, b2, nullptr);
  for (int lane = 0; lane < kLanes; ++lane) {
    const float value = std::fma(a[lane], b[lane], c[lane]);
    const bool scaled = (wave.vcc() >> lane & 1) != 0;
    const int exponent = std::fabs(c[lane]) >= 2.0f ? 64 : -64;
    result.store(lane, scaled ? std::ldexp(value, exponent) : value);
  }
  const u64 defined = a.defined & b.defined & c.defined & wave.scalar64_defined(kVcc);
  write_lanes<float>(context, wave, in, result, wave.exec(), defined);
}
/// v_div_fixup_f32: the special cases of quotient = numerator / denominator.
float div_fixup(float quotient, float denominator, float numerator) {
  const bool negative = std::signbit(denominator) != std::signbit(numerator);
  if (std::isnan(numerator)) return numerator;
  if (std::isnan(denominator)) return denominator;
  if ((numerator == 0 && denominator == 0) || (std::isinf(numerator) && std::isinf(denominator))) {
    return kNaN;
  }
  if (denominator == 0 || std::isinf(numerator)) return negative ? -kInfinity : kInfinity;
  if (std::isinf(denominator) || numerator == 0) return negative ? -0.0f : 0.0f;
  const bool underflow = std::ilogb(numerator) - std::ilogb(denominator) < -150;
  return std::copysign(underflow ? 0.0f : std::fabs(quotient), negative ? -1.0f : 1.0f);
}

/// v_med3_f32: where one of the three is NaN, the smallest of the others (Vega ISA).
float median(float a, float b, float c) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c)) return std::fmin(std::fmin(a, b), c);
  return std::fmax(std::fmin(a, b), std::fmin(std::fmax(a, b), c));
}

float ldexp_clamped(float x, i32 exponent) {
  return std::ldexp(x, std::clamp(exponent, -400, 400));
}
i32 to_i32(double x) {
  if (std::isnan(x)) return 0;
  if (x >= 2147483647.0) return std::numeric_limits<i32>::max();
  if (x <= -2147483648.0) return std::numeric_limits<i32>::min();
  return static_cast<i32>(x);
}
u32 to_u32(double x) {
  if (!(x > 0)) return 0;
  return x >= 4294967295.0 ? ~u32{0} : static_cast<u32>(x);
}
/// The 10-bit class mask of v_cmp_class_f32: signalling and quiet NaN, -inf, -normal, -denormal,
/// -0, +0, +denormal, +normal, +inf.
u32 class_bit(float x) {
  const u32 bits = to_bits(x), fraction = bits & 0x7fffff, exponent = bits >> 23 & 255;
  const bool negative = bits >> 31 != 0;
  if (exponent == 255 && fraction != 0) return fraction >> 22 != 0 ? 2 : 1;
  if (exponent == 255) return negative ? 4 : 512;
  if (exponent != 0) return negative ? 8 : 256;
  if (fraction != 0) return negative ? 16 : 128;
  return negative ? 32 : 64;
}

/// v_cmp and v_cmpx over T: the mask of lanes where F holds, zero outside exec.
template <typename T, typename B, typename F, bool exec_too>
void execute_compare(Context& context, Wave& wave, const Instruction& in) {
  LaneBuffer b0, b1;
  u64 write = wave.exec();
  const auto a = read_lanes<T>(context, wave, in, 1, b0, &write);
  const auto b = read_lanes<B>(context, wave, in, 2, b1, nullptr);
  u64 mask = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    mask |= static_cast<u64>(F{}(a[lane], b[lane])) << lane;
  }
  const u64 exec = wave.exec(), defined = (a.defined & b.defined) | ~exec;
  write_scalar64(context, wave, in, in.operand[0].index, mask & exec, defined);
  if (exec_too) write_scalar64(context, wave, in, kExec, mask & exec, defined);
}
template <typename T, typename B = T, typename F>
void compare(OpcodeTable& table, const std::string& condition, const std::string& type, F) {
  table.add("v_cmp_" + condition + "_" + type, Unit::vector, &execute_compare<T, B, F, false>);
  table.add("v_cmpx_" + condition + "_" + type, Unit::vector, &execute_compare<T, B, F, true>);
}
template <typename T>
void ordered_compares(OpcodeTable& table, const std::string& type) {
  compare<T>(table, "lt", type, [](T a, T b) { return a < b; });
  compare<T>(table, "eq", type, [](T a, T b) { return a == b; });
  compare<T>(table, "le", type, [](T a, T b) { return a <= b; });
  compare<T>(table, "gt", type, [](T a, T b) { return a > b; });
  compare<T>(table, "ge", type, [](T a, T b) { return a >= b; });
}
template <typename T>
void float_compares(OpcodeTable& table, const std::string& type) {
  ordered_compares<T>(table, type);
  compare<T>(table, "lg", type, [](T a, T b) { return a < b || a > b; });
  compare<T>(table, "o", type, [](T a, T b) { return a == a && b == b; });
  compare<T>(table, "u", type, [](T a, T b) { return a != a || b != b; });
  compare<T>(table, "nge", type, [](T a, T b) { return !(a >= b); });
  compare<T>(table, "nlg", type, [](T a, T b) { return !(a < b || a > b); });
  compare<T>(table, "ngt", type, [](T a, T b) { return !(a > b); });
  compare<T>(table, "nle", type, [](T a, T b) { return !(a <= b); });
  compare<T>(table, "neq", type, [](T a, T b) { return !(a == b); });
  compare<T>(table, "nlt", type, [](T a, T b) { return !(a < b); });
}
template <typename T>
void integer_compares(OpcodeTable& table, const std::string& type) {
  ordered_compares<T>(table, type);
  compare<T>(table, "ne", type, [](T a, T b) { return a != b; });
}

void add_arithmetic(OpcodeTable& table) {
  table.vector("v_add_f32", [](float a, float b) { return a + b; });
  table.vector("v_sub_f32", [](float a, float b) { return a - b; });
  table.vector("v_subrev_f32", [](float a, float b) { return b - a; });
  table.vector("v_mul_f32", [](float a, float b) { return a * b; });
  table.vector("v_mul_legacy_f32",
               [](float a, float b) { return a == 0 || b == 0 ? 0.0f : a * b; });
  table.vector("v_fma_f32", [](float a, float b, float c) { return std::fma(a, b, c); });
  table.accumulate("v_fmac_f32", [](float a, float b, float c) { return std::fma(a, b, c); });
  for (const char* name : {"v_mad_f32", "v_madak_f32", "v_madmk_f32"}) {
    table.vector(name, [](float a, float b, float c) { return multiply_add_flushed(a, b, c); });
  }
  table.accumulate("v_mac_f32",
                   [](float a, float b, float c) { return multiply_add_flushed(a, b, c); });
  table.vector("v_min_f32", [](float a, float b) { return std::fmin(a, b); });
  table.vector("v_max_f32", [](float a, float b) { return std::fmax(a, b); });
  table.vector("v_min3_f32",
               [](float a, float b, float c) { return std::fmin(std::fmin(a, b), c); });
  table.vector("v_max3_f32",
               [](float a, float b, float c) { return std::fmax(std::fmax(a, b), c); });
  table.vector("v_med3_f32", [](float a, float b, float c) { return median(a, b, c); });
  table.transcendental("v_exp_f32",
                       [](float a) { return flush(static_cast<float>(exp2_wide(flush(a)))); });
  table.transcendental("v_log_f32",
                       [](float a) { return static_cast<float>(std::log2(double{flush(a)})); });
  for (const char* name : {"v_rcp_f32", "v_rcp_iflag_f32"}) {
    table.transcendental(name, [](float a) { return flush(static_cast<float>(1.0 / flush(a))); });
  }
  table.transcendental(
      "v_rsq_f32", [](float a) { return static_cast<float>(1.0 / std::sqrt(double{flush(a)})); });
  table.transcendental("v_sqrt_f32", [](float a) { return std::sqrt(flush(a)); });
  table.vector("v_rndne_f32", [](float a) { return std::nearbyint(a); });
  table.vector("v_floor_f32", [](float a) { return std::floor(a); });
  table.vector("v_ceil_f32", [](float a) { return std::ceil(a); });
  table.vector("v_trunc_f32", [](float a) { return std::trunc(a); });
  table.vector("v_fract_f32", [](float a) { return a - std::floor(a); });
  table.vector("v_ldexp_f32", [](float a, i32 b) { return ldexp_clamped(a, b); });
  table.vector("v_frexp_mant_f32", [](float a) {
    int exponent = 0;
    return std::isfinite(a) ? std::frexp(a, &exponent) : a;
  });
  table.vector("v_frexp_exp_i32_f32", [](float a) {
    i32 exponent = 0;
    if (std::isfinite(a) && a != 0) (void)std::frexp(a, &exponent);
    return exponent;
  });
  table.add("v_div_scale_f32", Unit::vector, &execute_div_scale);
  table.add("v_div_fmas_f32", Unit::vector, &execute_div_fmas);
  table.vector("v_div_fixup_f32", [](float q, float d, float n) { return div_fixup(q, d, n); });
  table.vector(
      "v_add_f64", [](double a, double b) { return a + b; }, Unit::vector_half);
  table.vector(
      "v_mul_f64", [](double a, double b) { return a * b; }, Unit::vector_half);
  table.vector(
      "v_fma_f64", [](double a, double b, double c) { return std::fma(a, b, c); },
      Unit::vector_half);
  table.vector(
      "v_min_f64", [](double a, double b) { return std::fmin(a, b); }, Unit::vector_half);
  table.vector(
      "v_max_f64", [](double a, double b) { return std::fmax(a, b); }, Unit::vector_half);
}

void add_conversions(OpcodeTable& table) {
  table.vector("v_cvt_i32_f32", [](float a) { return to_i32(a); });
  table.vector("v_cvt_u32_f32", [](float a) { return to_u32(a); });
  table.vector("v_cvt_f32_i32", [](i32 a) { return static_cast<float>(a); });
  table.vector("v_cvt_f32_u32", [](u32 a) { return static_cast<float>(a); });
  table.vector("v_cvt_f32_ubyte0", [](u32 a) { return static_cast<float>(a & 255); });
  table.vector(
      "v_cvt_f64_f32", [](float a) { return double{a}; }, Unit::vector_half);
  table.vector(
      "v_cvt_f32_f64", [](double a) { return static_cast<float>(a); }, Unit::vector_half);
  table.vector(
      "v_cvt_f64_i32", [](i32 a) { return double{static_cast<double>(a)}; }, Unit::vector_half);
  table.vector(
      "v_cvt_f64_u32", [](u32 a) { return static_cast<double>(a); }, Unit::vector_half);
  table.vector(
      "v_cvt_i32_f64", [](double a) { return to_i32(a); }, Unit::vector_half);
}

}  // namespace

void add_vector_float(OpcodeTable& table) {
  add_arithmetic(table);
  add_conversions(table);
  float_compares<float>(table, "f32");
  float_compares<double>(table, "f64");
  float_compares<Half>(table, "f16");
  integer_compares<i32>(table, "i32");
  integer_compares<u32>(table, "u32");
  integer_compares<std::int64_t>(table, "i64");
  integer_compares<u64>(table, "u64");
  integer_compares<std::int16_t>(table, "i16");
  integer_compares<std::uint16_t>(table, "u16");
  compare<float, u32>(table, "class", "f32",
                      [](float a, u32 mask) { return (class_bit(a) & mask) != 0; });
}

}  // namespace gdn::gfx906
