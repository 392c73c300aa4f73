// VALU: integers, bits, carries, moves and selections.
#include <algorithm>
#include <bit>

#include "hip/emulator/opcode_table.h"

namespace gdn::gfx906 {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

i32 signed24(u32 value) { return static_cast<i32>(value << 8) >> 8; }
u32 low24(u32 value) { return value & 0xffffff; }

u32 permute_bytes(u32 high, u32 low, u32 selector) {
  const u64 bytes = static_cast<u64>(high) << 32 | low;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 select = selector >> (8 * i) & 255;
    u64 byte = 0;
    if (select < 8) {
      byte = bytes >> (8 * select) & 255;
    } else if (select < 12) {  // sign of one of the four words
      byte = (bytes >> (16 * (select - 8) + 15) & 1) * 255;
    } else {
      byte = select == 12 ? 0 : 255;
    }
    result |= static_cast<u32>(byte) << (8 * i);
  }
  return result;
}
u32 reverse_bits(u32 value) {
  u32 reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (value >> i & 1) << (31 - i);
  return reversed;
}

/// Additions and subtractions that write a carry mask (operand 1) and may read one (operand 4). F
/// returns the 33-bit result: bit 32 is the carry or borrow.
template <typename F>
void execute_carry(Context& context, Wave& wave, const Instruction& in) {
  LaneBuffer b0, b1, result;
  u64 write = wave.exec();
  const auto a = read_lanes<u32>(context, wave, in, 2, b0, &write);
  const auto b = read_lanes<u32>(context, wave, in, 3, b1, nullptr);
  const bool carry_in = in.num_operands > 4;
  const u64 carry = carry_in ? scalar_value64(wave, in.operand[4]) : 0;
  u64 defined = a.defined & b.defined;
  if (carry_in) defined &= scalar_defined64(wave, in.operand[4]);
  u64 out = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u64 value = F{}(a[lane], b[lane], carry >> lane & 1);
    result.low[lane] = static_cast<u32>(value);
    out |= (value >> 32 & 1) << lane;
  }
  const u64 exec = wave.exec();
  write_lanes<u32>(context, wave, in, result, write, defined);
  write_scalar64(context, wave, in, in.operand[1].index, out & exec, defined | ~exec);
}

/// Lanes whose low word of a 64-bit operand is defined. Compilers compute 32-bit products with
/// 64-bit instructions and leave the high word of an addend undefined, as they may: the low word of
/// a sum, product or left shift depends on low words only.
u64 low_word_defined(const Wave& wave, const Operand& operand, u64 whole) {
  return operand.kind == Operand::Kind::vector ? wave.v_defined[operand.index] : whole;
}
void write_words(Wave& wave, const Instruction& in, const LaneBuffer& result, u64 low_defined,
                 u64 high_defined) {
  store_register(wave, in.operand[0].index, result.low, wave.exec(), low_defined);
  store_register(wave, in.operand[0].index + 1, result.high, wave.exec(), high_defined);
}

template <typename Factor>
void execute_mad64(Context& context, Wave& wave, const Instruction& in) {
  using Wide = std::conditional_t<std::is_signed_v<Factor>, i64, u64>;
  LaneBuffer b0, b1, b2, result;
  const auto a = read_lanes<Factor>(context, wave, in, 2, b0, nullptr);
  const auto b = read_lanes<Factor>(context, wave, in, 3, b1, nullptr);
  const auto c = read_lanes<u64>(context, wave, in, 4, b2, nullptr);
  const u64 factors = a.defined & b.defined;
  const u64 low_defined = factors & low_word_defined(wave, in.operand[4], c.defined);
  u64 carries = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u64 product = static_cast<u64>(static_cast<Wide>(a[lane]) * b[lane]);
    const u64 sum = product + c[lane];
    result.store(lane, sum);
    carries |= static_cast<u64>(sum < product) << lane;
  }
  const u64 exec = wave.exec(), defined = factors & c.defined;
  write_words(wave, in, result, low_defined, defined);
  write_scalar64(context, wave, in, in.operand[1].index, carries & exec, defined | ~exec);
}

void execute_shift_left64(Context& context, Wave& wave, const Instruction& in) {
  LaneBuffer b0, b1, result;
  const auto shift = read_lanes<u32>(context, wave, in, 1, b0, nullptr);
  const auto value = read_lanes<u64>(context, wave, in, 2, b1, nullptr);
  const u64 low_defined = shift.defined & low_word_defined(wave, in.operand[2], value.defined);
  for (int lane = 0; lane < kLanes; ++lane) {
    result.store(lane, value[lane] << (shift[lane] & 63));
  }
  write_words(wave, in, result, low_defined, shift.defined & value.defined);
}

/// v_cndmask_b32: operand 3 is the mask; a lane is as defined as the value it takes.
void execute_cndmask(Context& context, Wave& wave, const Instruction& in) {
  LaneBuffer b0, b1, result;
  u64 write = wave.exec();
  const auto if_clear = read_lanes<float>(context, wave, in, 1, b0, &write);
  const auto if_set = read_lanes<float>(context, wave, in, 2, b1, nullptr);
  const u64 mask = scalar_value64(wave, in.operand[3]);
  for (int lane = 0; lane < kLanes; ++lane) {
    result.low[lane] = (mask >> lane & 1) != 0 ? if_set.low[lane] : if_clear.low[lane];
  }
  const u64 defined = ((mask & if_set.defined) | (~mask & if_clear.defined)) &
                      scalar_defined64(wave, in.operand[3]);
  write_lanes<u32>(context, wave, in, result, write, defined);
}

/// v_mbcnt: bits of the mask below this lane, in its low or high half.
template <bool high>
void execute_mbcnt(Context& context, Wave& wave, const Instruction& in) {
  LaneBuffer b0, b1, result;
  const auto mask = read_lanes<u32>(context, wave, in, 1, b0, nullptr);
  const auto base = read_lanes<u32>(context, wave, in, 2, b1, nullptr);
  for (int lane = 0; lane < kLanes; ++lane) {
    const u64 below = (u64{1} << lane) - 1;
    const auto select = static_cast<u32>(high ? below >> 32 : below);
    result.low[lane] = base[lane] + static_cast<u32>(std::popcount(mask[lane] & select));
  }
  write_lanes<u32>(context, wave, in, result, wave.exec(), mask.defined & base.defined);
}

void add_arithmetic(OpcodeTable& table) {
  for (const char* name : {"v_add_u32", "v_add_i32"}) {
    table.vector(name, [](u32 a, u32 b) { return a + b; });
  }
  for (const char* name : {"v_sub_u32", "v_sub_i32"}) {
    table.vector(name, [](u32 a, u32 b) { return a - b; });
  }
  table.vector("v_subrev_u32", [](u32 a, u32 b) { return b - a; });
  const auto carry = [&]<typename F>(const char* name, F) {
    table.add(name, Unit::vector, &execute_carry<F>);
  };
  for (const char* name : {"v_add_co_u32", "v_addc_co_u32"}) {
    carry(name, [](u32 a, u32 b, u64 c) { return u64{a} + b + c; });
  }
  for (const char* name : {"v_sub_co_u32", "v_subb_co_u32"}) {
    carry(name, [](u32 a, u32 b, u64 c) { return u64{a} - b - c; });
  }
  for (const char* name : {"v_subrev_co_u32", "v_subbrev_co_u32"}) {
    carry(name, [](u32 a, u32 b, u64 c) { return u64{b} - a - c; });
  }
  table.vector(
      "v_mul_lo_u32", [](u32 a, u32 b) { return a * b; }, Unit::vector_quarter);
  table.vector(
      "v_mul_hi_u32", [](u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 32); },
      Unit::vector_quarter);
  table.vector(
      "v_mul_hi_i32", [](i32 a, i32 b) { return static_cast<i32>(i64{a} * b >> 32); },
      Unit::vector_quarter);
  table.vector("v_mul_u32_u24", [](u32 a, u32 b) { return low24(a) * low24(b); });
  table.vector("v_mul_i32_i24",
               [](u32 a, u32 b) { return static_cast<u32>(i64{signed24(a)} * signed24(b)); });
  table.vector("v_mul_hi_u32_u24",
               [](u32 a, u32 b) { return static_cast<u32>(u64{low24(a)} * low24(b) >> 32); });
  table.vector("v_mul_hi_i32_i24", [](u32 a, u32 b) {
    return static_cast<u32>((i64{signed24(a)} * signed24(b)) >> 32);
  });
  table.vector("v_mad_u32_u24", [](u32 a, u32 b, u32 c) { return low24(a) * low24(b) + c; });
  table.vector("v_mad_i32_i24", [](u32 a, u32 b, u32 c) {
    return static_cast<u32>(i64{signed24(a)} * signed24(b)) + c;
  });
  table.add("v_mad_u64_u32", Unit::vector_quarter, &execute_mad64<u32>);
  table.add("v_mad_i64_i32", Unit::vector_quarter, &execute_mad64<i32>);
  table.vector("v_min_i32", [](i32 a, i32 b) { return std::min(a, b); });
  table.vector("v_max_i32", [](i32 a, i32 b) { return std::max(a, b); });
  table.vector("v_min_u32", [](u32 a, u32 b) { return std::min(a, b); });
  table.vector("v_max_u32", [](u32 a, u32 b) { return std::max(a, b); });
  table.vector("v_min3_i32", [](i32 a, i32 b, i32 c) { return std::min({a, b, c}); });
  table.vector("v_max3_i32", [](i32 a, i32 b, i32 c) { return std::max({a, b, c}); });
  table.vector("v_min3_u32", [](u32 a, u32 b, u32 c) { return std::min({a, b, c}); });
  table.vector("v_max3_u32", [](u32 a, u32 b, u32 c) { return std::max({a, b, c}); });
  table.vector("v_med3_i32", [](i32 a, i32 b, i32 c) {
    return std::max(std::min(a, b), std::min(std::max(a, b), c));
  });
  table.vector("v_med3_u32", [](u32 a, u32 b, u32 c) {
    return std::max(std::min(a, b), std::min(std::max(a, b), c));
  });
  table.vector("v_sad_u32", [](u32 a, u32 b, u32 c) { return (a > b ? a - b : b - a) + c; });
  // 16-bit results clear the upper half on this architecture.
  table.vector("v_add_u16", [](u32 a, u32 b) { return (a + b) & 0xffff; });
  table.vector("v_sub_u16", [](u32 a, u32 b) { return (a - b) & 0xffff; });
  table.vector("v_mul_lo_u16", [](u32 a, u32 b) { return (a * b) & 0xffff; });
}

void add_bits(OpcodeTable& table) {
  table.vector("v_and_b32", [](u32 a, u32 b) { return a & b; });
  table.vector("v_or_b32", [](u32 a, u32 b) { return a | b; });
  table.vector("v_xor_b32", [](u32 a, u32 b) { return a ^ b; });
  table.vector("v_xnor_b32", [](u32 a, u32 b) { return ~(a ^ b); });
  table.vector("v_not_b32", [](u32 a) { return ~a; });
  table.vector("v_bfrev_b32", [](u32 a) { return reverse_bits(a); });
  table.vector("v_lshlrev_b32", [](u32 a, u32 b) { return b << (a & 31); });
  table.vector("v_lshrrev_b32", [](u32 a, u32 b) { return b >> (a & 31); });
  table.vector("v_ashrrev_i32", [](u32 a, i32 b) { return b >> (a & 31); });
  table.vector("v_lshlrev_b16", [](u32 a, u32 b) { return (b << (a & 15)) & 0xffff; });
  table.vector("v_lshrrev_b16", [](u32 a, u32 b) { return (b & 0xffff) >> (a & 15); });
  table.add("v_lshlrev_b64", Unit::vector_half, &execute_shift_left64);
  table.vector(
      "v_lshrrev_b64", [](u32 a, u64 b) { return b >> (a & 63); }, Unit::vector_half);
  table.vector(
      "v_ashrrev_i64", [](u32 a, i64 b) { return b >> (a & 63); }, Unit::vector_half);
  table.vector("v_lshl_add_u32", [](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; });
  table.vector("v_lshl_or_b32", [](u32 a, u32 b, u32 c) { return (a << (b & 31)) | c; });
  table.vector("v_add_lshl_u32", [](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); });
  table.vector("v_add3_u32", [](u32 a, u32 b, u32 c) { return a + b + c; });
  table.vector("v_or3_b32", [](u32 a, u32 b, u32 c) { return a | b | c; });
  table.vector("v_and_or_b32", [](u32 a, u32 b, u32 c) { return (a & b) | c; });
  table.vector("v_xad_u32", [](u32 a, u32 b, u32 c) { return (a ^ b) + c; });
  table.vector("v_bfe_u32",
               [](u32 a, u32 b, u32 c) { return (a >> (b & 31)) & ((1u << (c & 31)) - 1); });
  table.vector("v_bfe_i32", [](i32 a, u32 b, u32 c) {
    const u32 width = c & 31;
    if (width == 0) return i32{0};
    return static_cast<i32>(static_cast<u32>(a >> (b & 31)) << (32 - width)) >> (32 - width);
  });
  table.vector("v_bfi_b32", [](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); });
  table.vector("v_bfm_b32", [](u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); });
  table.vector("v_alignbit_b32", [](u32 a, u32 b, u32 c) {
    return static_cast<u32>((u64{a} << 32 | b) >> (c & 31));
  });
  table.vector("v_alignbyte_b32", [](u32 a, u32 b, u32 c) {
    return static_cast<u32>((u64{a} << 32 | b) >> (8 * (c & 3)));
  });
  table.vector("v_perm_b32", [](u32 a, u32 b, u32 c) { return permute_bytes(a, b, c); });
  table.vector("v_bcnt_u32_b32",
               [](u32 a, u32 b) { return static_cast<u32>(std::popcount(a)) + b; });
  table.vector("v_ffbl_b32", [](u32 a) { return a == 0 ? -1 : std::countr_zero(a); });
  table.vector("v_ffbh_u32", [](u32 a) { return a == 0 ? -1 : std::countl_zero(a); });
  table.add("v_mbcnt_lo_u32_b32", Unit::vector, &execute_mbcnt<false>);
  table.add("v_mbcnt_hi_u32_b32", Unit::vector, &execute_mbcnt<true>);
}

}  // namespace

void add_vector_integer(OpcodeTable& table) {
  table.add("v_nop", Unit::vector, [](Context&, Wave&, const Instruction&) {});
  table.vector("v_mov_b32", [](u32 a) { return a; });
  table.add("v_cndmask_b32", Unit::vector, &execute_cndmask);
  add_arithmetic(table);
  add_bits(table);
}

}  // namespace gdn::gfx906
