// VALU: float16, packed float16, mixed precision and the dot product. A product of two float16 is
// exact in float32 and a sum of two products in float64, so each result is rounded once.
#ifdef __F16C__
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "hip/emulator/opcode_table.h"

namespace gdn::gfx906 {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

Half round_to_half(double x) { return static_cast<Half>(x); }

/// Exact. One instruction by way of float32 where the processor has it; a conversion straight to
/// float64, which GCC also makes of two casts, is a library call.
double to_double(Half x) {
#ifdef __F16C__
  return _cvtsh_ss(std::bit_cast<std::uint16_t>(x));
#else
  return static_cast<double>(x);
#endif
}

/// Truncation instead of rounding to nearest: v_cvt_pkrtz.
u32 half_bits_toward_zero(float x) {
  const Half nearest = static_cast<Half>(x);
  const bool away = std::fabs(static_cast<float>(nearest)) > std::fabs(x);
  return to_bits(nearest) - (away ? 1u : 0u);
}

/// Half `high` of operand k of a VOP3P instruction, with its selection and negation.
double packed_value(const Instruction& in, u32 bits, int k, bool high) {
  const bool upper = ((high ? in.op_sel_hi : in.op_sel) >> k & 1) != 0;
  const double value = to_double(from_bits<Half>(upper ? bits >> 16 : bits));
  const bool negate = ((high ? in.neg_hi : in.neg_lo) >> k & 1) != 0;
  return negate ? -value : value;
}

/// Inline constants of packed instructions occupy the low half; a scalar register both.
struct PackedSources {
  LaneBuffer buffers[3];
  Source<u32> source[3];
  u64 defined = kAllLanes;
  PackedSources(Context& context, Wave& wave, const Instruction& in, int count) {
    for (int k = 0; k < count; ++k) {
      source[k] = read_lanes<u32>(context, wave, in, k + 1, buffers[k], nullptr);
      const Operand& operand = in.operand[static_cast<std::size_t>(k + 1)];
      if (operand.kind == Operand::Kind::constant && operand.fraction) {
        for (u32& bits : buffers[k].low) bits = to_bits(static_cast<Half>(operand.real));
      }
      defined &= source[k].defined;
    }
  }
};

template <typename F>
void execute_packed(Context& context, Wave& wave, const Instruction& in) {
  constexpr int arity = detail::Signature<F>::arity;
  const PackedSources sources(context, wave, in, arity);
  LaneBuffer result;
  for (int lane = 0; lane < kLanes; ++lane) {
    u32 bits = 0;
    for (const bool high : {false, true}) {
      const double a = packed_value(in, sources.source[0].low[lane], 0, high);
      const double b = packed_value(in, sources.source[1].low[lane], 1, high);
      double value = 0;
      if constexpr (arity == 3) {
        value = F{}(a, b, packed_value(in, sources.source[2].low[lane], 2, high));
      } else {
        value = F{}(a, b);
      }
      if (in.clamp) value = clamped(value);
      bits |= to_bits(round_to_half(value)) << (high ? 16 : 0);
    }
    result.low[lane] = bits;
  }
  store_register(wave, in.operand[0].index, result.low, wave.exec(), sources.defined);
}

/// v_dot2_f32_f16: a.x b.x + a.y b.y + c. The ISA does not say in which order the hardware adds;
/// modelled as one rounding of the exact sum.
void execute_dot2(Context& context, Wave& wave, const Instruction& in) {
  const PackedSources sources(context, wave, in, 2);
  LaneBuffer buffer, result;
  const auto c = read_lanes<float>(context, wave, in, 3, buffer, nullptr);
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 a = sources.source[0].low[lane], b = sources.source[1].low[lane];
    double addend = c[lane];
    if ((in.neg_lo >> 2 & 1) != 0) addend = -addend;
    const double sum = packed_value(in, a, 0, false) * packed_value(in, b, 1, false) +
                       packed_value(in, a, 0, true) * packed_value(in, b, 1, true) + addend;
    result.store(lane, static_cast<float>(sum));
  }
  write_lanes<float>(context, wave, in, result, wave.exec(), sources.defined & c.defined);
}

enum class MixResult { float32, low_half, high_half };

/// v_fma_mix*: each source is float32, or the half that op_sel names where op_sel_hi is set.
template <MixResult form>
void execute_mix(Context& context, Wave& wave, const Instruction& in) {
  LaneBuffer buffers[3], result;
  Source<u32> source[3];
  u64 defined = kAllLanes;
  for (int k = 0; k < 3; ++k) {
    source[k] = read_lanes<u32>(context, wave, in, k + 1, buffers[k], nullptr);
    defined &= source[k].defined;
  }
  float values[3][kLanes];
  for (int k = 0; k < 3; ++k) {
    const Operand& operand = in.operand[static_cast<std::size_t>(k + 1)];
    if ((in.op_sel_hi >> k & 1) == 0) {
      std::memcpy(values[k], source[k].low, sizeof values[k]);
    } else if (operand.kind == Operand::Kind::constant && operand.fraction) {
      std::fill_n(values[k], kLanes, static_cast<float>(static_cast<Half>(operand.real)));
    } else {
      const int shift = (in.op_sel >> k & 1) != 0 ? 16 : 0;
      for (int lane = 0; lane < kLanes; ++lane) {
        values[k][lane] = static_cast<float>(from_bits<Half>(source[k].low[lane] >> shift));
      }
    }
    for (float& x : values[k]) {
      if (operand.absolute) x = std::fabs(x);
      if (operand.negate) x = -x;
    }
  }
  const int index = in.operand[0].index;
  for (int lane = 0; lane < kLanes; ++lane) {
    const float unclamped = std::fma(values[0][lane], values[1][lane], values[2][lane]);
    const float sum = in.clamp ? clamped(unclamped) : unclamped;
    if constexpr (form == MixResult::float32) {
      result.low[lane] = to_bits(sum);
    } else {
      const u32 kept = wave.v[index][lane];
      const u32 half = to_bits(static_cast<Half>(sum));
      result.low[lane] =
          form == MixResult::low_half ? (kept & 0xffff0000u) | half : (kept & 0xffffu) | half << 16;
    }
  }
  // The other half keeps what it was; it is often undefined until its own instruction. A register
  // is defined as a whole here, so the first half written counts.
  store_register(wave, index, result.low, wave.exec(), defined);
}

/// v_fma_f16: op_sel names the half of each source and, by its fourth bit, of the result. Unlike
/// other float16 instructions of this architecture it keeps the other half.
void execute_fma_half(Context& context, Wave& wave, const Instruction& in) {
  const PackedSources sources(context, wave, in, 3);
  LaneBuffer result;
  const int index = in.operand[0].index;
  const bool to_high = (in.op_sel >> 3 & 1) != 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    double values[3];
    for (int k = 0; k < 3; ++k) {
      const u32 bits = sources.source[k].low[lane] >> ((in.op_sel >> k & 1) != 0 ? 16 : 0);
      const Operand& operand = in.operand[static_cast<std::size_t>(k + 1)];
      values[k] = to_double(from_bits<Half>(bits));
      if (operand.absolute) values[k] = std::fabs(values[k]);
      if (operand.negate) values[k] = -values[k];
    }
    double value = std::fma(values[0], values[1], values[2]);
    if (in.clamp) value = clamped(value);
    const u32 half = to_bits(round_to_half(value)), kept = wave.v[index][lane];
    result.low[lane] = to_high ? (kept & 0xffffu) | half << 16 : (kept & 0xffff0000u) | half;
  }
  // Defined as a whole by the half that is written: see execute_mix.
  store_register(wave, index, result.low, wave.exec(), sources.defined);
}

void execute_pack(Context& context, Wave& wave, const Instruction& in) {
  LaneBuffer b0, b1, result;
  const auto a = read_lanes<Half>(context, wave, in, 1, b0, nullptr);
  const auto b = read_lanes<Half>(context, wave, in, 2, b1, nullptr);
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 low = (in.op_sel & 1) != 0 ? a.low[lane] >> 16 : a.low[lane];
    const u32 high = (in.op_sel & 2) != 0 ? b.low[lane] >> 16 : b.low[lane];
    result.low[lane] = (low & 0xffff) | high << 16;
  }
  store_register(wave, in.operand[0].index, result.low, wave.exec(), a.defined & b.defined);
}

template <typename F>
void packed(OpcodeTable& table, const char* name, F) {
  table.add(name, Unit::vector, &execute_packed<F>);
}

}  // namespace

void add_vector_half(OpcodeTable& table) {
  table.vector("v_add_f16",
               [](Half a, Half b) { return round_to_half(to_double(a) + to_double(b)); });
  table.vector("v_sub_f16",
               [](Half a, Half b) { return round_to_half(to_double(a) - to_double(b)); });
  table.vector("v_subrev_f16",
               [](Half a, Half b) { return round_to_half(to_double(b) - to_double(a)); });
  table.vector("v_mul_f16",
               [](Half a, Half b) { return round_to_half(to_double(a) * to_double(b)); });
  table.vector("v_max_f16",
               [](Half a, Half b) { return round_to_half(std::fmax(to_double(a), to_double(b))); });
  table.vector("v_min_f16",
               [](Half a, Half b) { return round_to_half(std::fmin(to_double(a), to_double(b))); });
  table.add("v_fma_f16", Unit::vector, &execute_fma_half);
  table.vector("v_rndne_f16", [](Half a) { return round_to_half(std::nearbyint(to_double(a))); });
  table.vector("v_floor_f16", [](Half a) { return round_to_half(std::floor(to_double(a))); });
  table.vector("v_ceil_f16", [](Half a) { return round_to_half(std::ceil(to_double(a))); });
  table.vector("v_trunc_f16", [](Half a) { return round_to_half(std::trunc(to_double(a))); });
  table.vector("v_cvt_f16_f32", [](float a) { return static_cast<Half>(a); });
  table.vector("v_cvt_f32_f16", [](Half a) { return static_cast<float>(a); });
  table.vector("v_cvt_pkrtz_f16_f32", [](float a, float b) {
    return half_bits_toward_zero(a) | half_bits_toward_zero(b) << 16;
  });
  table.add("v_pack_b32_f16", Unit::vector, &execute_pack);
  packed(table, "v_pk_fma_f16", [](double a, double b, double c) { return std::fma(a, b, c); });
  packed(table, "v_pk_add_f16", [](double a, double b) { return a + b; });
  packed(table, "v_pk_mul_f16", [](double a, double b) { return a * b; });
  packed(table, "v_pk_max_f16", [](double a, double b) { return std::fmax(a, b); });
  packed(table, "v_pk_min_f16", [](double a, double b) { return std::fmin(a, b); });
  table.add("v_dot2_f32_f16", Unit::vector, &execute_dot2);
  table.add("v_fma_mix_f32", Unit::vector, &execute_mix<MixResult::float32>);
  table.add("v_fma_mixlo_f16", Unit::vector, &execute_mix<MixResult::low_half>);
  table.add("v_fma_mixhi_f16", Unit::vector, &execute_mix<MixResult::high_half>);
}

}  // namespace gdn::gfx906
