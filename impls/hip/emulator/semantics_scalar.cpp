// SALU instructions, branches, waits and s_load. SCC follows the Vega ISA: most bitwise and shift
// instructions set it to "result is not zero", additions to the carry (unsigned) or overflow
// (signed).
#include <algorithm>
#include <bit>
#include <cstring>

#include "hip/emulator/opcode_table.h"

namespace gdn::gfx906 {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

template <typename T>
T read(const Wave& wave, const Operand& operand) {
  if constexpr (sizeof(T) == 8) {
    return static_cast<T>(scalar_value64(wave, operand));
  } else {
    return static_cast<T>(scalar_value(wave, operand));
  }
}

template <typename T>
u64 read_defined(const Wave& wave, const Operand& operand) {
  return sizeof(T) == 8 ? scalar_defined64(wave, operand)
                        : scalar_defined(wave, operand) | ~u64{0xffffffff};
}

template <typename T>
void write(Context& context, Wave& wave, const Instruction& instruction, T value, u64 defined) {
  const int index = instruction.operand[0].index;
  if constexpr (sizeof(T) == 8) {
    write_scalar64(context, wave, instruction, index, static_cast<u64>(value), defined);
  } else {
    write_scalar(context, wave, instruction, index, static_cast<u32>(value),
                 static_cast<u32>(defined));
  }
}

void set_scc(Wave& wave, bool value, bool defined) {
  wave.scc = value;
  wave.scc_defined = defined;
}

bool require_scc(Context& context, Wave& wave, const Instruction& instruction) {
  if (!wave.scc_defined) {
    context.report(FaultKind::undefined_value, wave, instruction, "scalar condition");
    wave.scc_defined = true;
  }
  return wave.scc;
}

enum class SccRule { keep, not_zero };

/// F over the operands 1, 2, ...; every result bit depends on every source bit.
template <typename F, SccRule rule>
void execute_arithmetic(Context& context, Wave& wave, const Instruction& in) {
  using Result = typename detail::Signature<F>::Result;
  using Arguments = typename detail::Signature<F>::Arguments;
  const u64 all = [&]<std::size_t... K>(std::index_sequence<K...>) {
    return (read_defined<std::tuple_element_t<K, Arguments>>(wave, in.operand[K + 1]) & ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Arguments>>{});
  const Result value = [&]<std::size_t... K>(std::index_sequence<K...>) {
    return F{}(read<std::tuple_element_t<K, Arguments>>(wave, in.operand[K + 1])...);
  }
  (std::make_index_sequence<std::tuple_size_v<Arguments>>{});
  const bool defined = all == kAllLanes;
  write(context, wave, in, value, defined ? kAllLanes : 0);
  if (rule == SccRule::not_zero) set_scc(wave, value != 0, defined);
}

/// Result and SCC, both from F.
template <typename T>
struct WithScc {
  T value;
  bool scc;
};
template <typename F>
void execute_with_scc(Context& context, Wave& wave, const Instruction& in) {
  const u64 all = read_defined<u32>(wave, in.operand[1]) & read_defined<u32>(wave, in.operand[2]);
  const auto result = F{}(read<u32>(wave, in.operand[1]), read<u32>(wave, in.operand[2]));
  write(context, wave, in, result.value, all == kAllLanes ? kAllLanes : 0);
  set_scc(wave, result.scc, all == kAllLanes);
}
template <typename F>
void execute_with_carry(Context& context, Wave& wave, const Instruction& in) {
  const u64 all = read_defined<u32>(wave, in.operand[1]) & read_defined<u32>(wave, in.operand[2]);
  const bool defined = all == kAllLanes && wave.scc_defined;
  const auto result = F{}(read<u32>(wave, in.operand[1]), read<u32>(wave, in.operand[2]), wave.scc);
  write(context, wave, in, result.value, defined ? kAllLanes : 0);
  set_scc(wave, result.scc, defined);
}

/// Bitwise functions: a result bit is defined where the source bits that decide it are.
struct And {
  static u64 value(u64 a, u64 b) { return a & b; }
  static u64 defined(u64 a, u64 da, u64 b, u64 db) { return (da & db) | (da & ~a) | (db & ~b); }
};
struct Or {
  static u64 value(u64 a, u64 b) { return a | b; }
  static u64 defined(u64 a, u64 da, u64 b, u64 db) { return (da & db) | (da & a) | (db & b); }
};
struct Xor {
  static u64 value(u64 a, u64 b) { return a ^ b; }
  static u64 defined(u64, u64 da, u64, u64 db) { return da & db; }
};
template <typename Base, bool invert_b, bool invert_result>
struct Inverted {
  static u64 value(u64 a, u64 b) {
    const u64 result = Base::value(a, invert_b ? ~b : b);
    return invert_result ? ~result : result;
  }
  static u64 defined(u64 a, u64 da, u64 b, u64 db) {
    return Base::defined(a, da, invert_b ? ~b : b, db);
  }
};
template <typename T, typename Op>
void execute_bitwise(Context& context, Wave& wave, const Instruction& in) {
  const u64 a = read<T>(wave, in.operand[1]), b = read<T>(wave, in.operand[2]);
  const u64 defined =
      Op::defined(a, read_defined<T>(wave, in.operand[1]), b, read_defined<T>(wave, in.operand[2]));
  const auto value = static_cast<T>(Op::value(a, b));
  write(context, wave, in, value, defined);
  set_scc(wave, value != 0, static_cast<T>(~defined) == 0);
}
/// D = exec; exec = Op(S0, exec); SCC = exec is not zero.
template <typename Op>
void execute_saveexec(Context& context, Wave& wave, const Instruction& in) {
  const u64 a = read<u64>(wave, in.operand[1]), exec = wave.exec();
  const u64 defined = Op::defined(a, read_defined<u64>(wave, in.operand[1]), exec, kAllLanes);
  write(context, wave, in, exec, kAllLanes);
  write_scalar64(context, wave, in, kExec, Op::value(a, exec), defined);
  set_scc(wave, wave.exec() != 0, true);
}

/// Copies keep what is known of each bit.
template <typename T, bool invert>
void execute_move(Context& context, Wave& wave, const Instruction& in) {
  T value = read<T>(wave, in.operand[1]);
  const u64 defined = read_defined<T>(wave, in.operand[1]);
  if (invert) value = static_cast<T>(~value);
  write(context, wave, in, value, defined);
  if (invert) set_scc(wave, value != 0, static_cast<T>(~defined) == 0);
}
template <typename T>
void execute_conditional_move(Context& context, Wave& wave, const Instruction& in) {
  if (require_scc(context, wave, in)) execute_move<T, false>(context, wave, in);
}
template <typename T>
void execute_select(Context& context, Wave& wave, const Instruction& in) {
  const bool defined = wave.scc_defined;
  const Operand& chosen = in.operand[wave.scc ? 1 : 2];
  write(context, wave, in, read<T>(wave, chosen), defined ? read_defined<T>(wave, chosen) : 0);
}

i32 immediate16(u32 bits) { return static_cast<std::int16_t>(bits); }

/// s_cmp and s_cmpk: T is the compared type; k forms sign- or zero-extend a 16-bit immediate.
template <typename T, typename F, bool immediate>
void execute_compare(Context&, Wave& wave, const Instruction& in) {
  const T a = read<T>(wave, in.operand[0]);
  T b = read<T>(wave, in.operand[1]);
  if constexpr (immediate) {
    b = std::is_signed_v<T> ? static_cast<T>(immediate16(static_cast<u32>(b)))
                            : static_cast<T>(b & 0xffff);
  }
  const u64 defined = read_defined<T>(wave, in.operand[0]) & read_defined<T>(wave, in.operand[1]);
  set_scc(wave, F{}(a, b), defined == kAllLanes);
}

template <bool wanted>
void execute_bit_compare(Context&, Wave& wave, const Instruction& in) {
  const u32 bit = read<u32>(wave, in.operand[1]) & 31;
  set_scc(wave, (read<u32>(wave, in.operand[0]) >> bit & 1) == (wanted ? 1 : 0),
          (scalar_defined(wave, in.operand[0]) >> bit & 1) != 0);
}

template <typename F>
void execute_branch(Context& context, Wave& wave, const Instruction& in) {
  if (F{}(context, wave, in)) wave.pc = in.target;
}

void execute_nothing(Context&, Wave&, const Instruction&) {}
void execute_end(Context&, Wave& wave, const Instruction&) { wave.state = WaveState::done; }
void execute_barrier(Context&, Wave& wave, const Instruction&) {
  wave.state = WaveState::at_barrier;
}
void execute_getpc(Context& context, Wave& wave, const Instruction& in) {
  write(context, wave, in, context.image_base + in.next_address, kAllLanes);
}

void execute_load(Context& context, Wave& wave, const Instruction& in) {
  const Operand& offset = in.operand[2];
  const i64 displacement = offset.kind == Operand::Kind::constant
                               ? static_cast<i64>(static_cast<i32>(offset.bits))
                               : static_cast<i64>(scalar_value(wave, offset));
  if (scalar_defined64(wave, in.operand[1]) != kAllLanes || ~scalar_defined(wave, offset) != 0) {
    context.report(FaultKind::undefined_value, wave, in, "address");
  }
  const u64 address =
      (scalar_value64(wave, in.operand[1]) + static_cast<u64>(displacement)) & ~u64{3};
  const u64 size = in.memory.dwords * 4u;
  if (!context.last_range.holds(address, address + size))
    find_range(context, wave, in, address, size);
  const int first = in.operand[0].index;
  std::memcpy(&wave.s[first], reinterpret_cast<const void*>(address), size);
  std::fill_n(&wave.s_defined[first], in.memory.dwords, ~u32{0});
  ++context.counters.global_loads;
  context.counters.global_bytes_read += size;
  if (context.options.profile) ++context.counters.global_lines;
}

template <typename T>
int leading_zeros_or_minus_one(T value) {
  return value == 0 ? -1 : std::countl_zero(value);
}
template <typename T>
int trailing_zeros_or_minus_one(T value) {
  return value == 0 ? -1 : std::countr_zero(value);
}
u32 reverse_bits(u32 value) {
  u32 reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (value >> i & 1) << (31 - i);
  return reversed;
}

template <typename F>
void plain(OpcodeTable& table, const char* name, F) {
  table.add(name, Unit::scalar, &execute_arithmetic<F, SccRule::keep>);
}
template <typename F>
void not_zero(OpcodeTable& table, const char* name, F) {
  table.add(name, Unit::scalar, &execute_arithmetic<F, SccRule::not_zero>);
}
template <typename F>
void with_scc(OpcodeTable& table, const char* name, F) {
  table.add(name, Unit::scalar, &execute_with_scc<F>);
}
template <typename F>
void with_carry(OpcodeTable& table, const char* name, F) {
  table.add(name, Unit::scalar, &execute_with_carry<F>);
}
template <typename F>
void branch(OpcodeTable& table, const char* name, F) {
  table.add(name, Unit::branch, &execute_branch<F>);
}

template <typename Op>
void bitwise(OpcodeTable& table, const std::string& name) {
  table.add("s_" + name + "_b32", Unit::scalar, &execute_bitwise<u32, Op>);
  table.add("s_" + name + "_b64", Unit::scalar, &execute_bitwise<u64, Op>);
  table.add("s_" + name + "_saveexec_b64", Unit::scalar, &execute_saveexec<Op>);
}

template <typename T>
void compares(OpcodeTable& table, const std::string& type) {
  const auto both = [&]<typename F>(const std::string& name, F) {
    table.add("s_cmp_" + name + "_" + type, Unit::scalar, &execute_compare<T, F, false>);
    table.add("s_cmpk_" + name + "_" + type, Unit::scalar, &execute_compare<T, F, true>);
  };
  both("eq", [](T a, T b) { return a == b; });
  both("lg", [](T a, T b) { return a != b; });
  both("gt", [](T a, T b) { return a > b; });
  both("ge", [](T a, T b) { return a >= b; });
  both("lt", [](T a, T b) { return a < b; });
  both("le", [](T a, T b) { return a <= b; });
}

void add_moves(OpcodeTable& table) {
  table.add("s_mov_b32", Unit::scalar, &execute_move<u32, false>);
  table.add("s_mov_b64", Unit::scalar, &execute_move<u64, false>);
  table.add("s_not_b32", Unit::scalar, &execute_move<u32, true>);
  table.add("s_not_b64", Unit::scalar, &execute_move<u64, true>);
  table.add("s_cmov_b32", Unit::scalar, &execute_conditional_move<u32>);
  table.add("s_cmov_b64", Unit::scalar, &execute_conditional_move<u64>);
  table.add("s_cselect_b32", Unit::scalar, &execute_select<u32>);
  table.add("s_cselect_b64", Unit::scalar, &execute_select<u64>);
  plain(table, "s_movk_i32", [](u32 a) { return immediate16(a); });
  plain(table, "s_sext_i32_i8",
        [](u32 a) { return static_cast<i32>(static_cast<std::int8_t>(a)); });
  plain(table, "s_sext_i32_i16", [](u32 a) { return immediate16(a); });
}

void add_control(OpcodeTable& table) {
  for (const char* name : {"s_waitcnt", "s_nop", "s_sleep", "s_setprio"}) {
    table.add(name, Unit::branch, &execute_nothing);
  }
  table.add("s_endpgm", Unit::branch, &execute_end);
  table.add("s_barrier", Unit::branch, &execute_barrier);
  table.add("s_getpc_b64", Unit::scalar, &execute_getpc);
  branch(table, "s_branch", [](Context&, Wave&, const Instruction&) { return true; });
  branch(table, "s_cbranch_scc0",
         [](Context& c, Wave& w, const Instruction& i) { return !require_scc(c, w, i); });
  branch(table, "s_cbranch_scc1",
         [](Context& c, Wave& w, const Instruction& i) { return require_scc(c, w, i); });
  const auto defined_vcc = [](Context& c, Wave& w, const Instruction& i) {
    require_defined(c, w, i, kAllLanes, w.scalar64_defined(kVcc), "branch condition");
    return w.vcc();
  };
  branch(table, "s_cbranch_vccz", [](Context& c, Wave& w, const Instruction& i) {
    return decltype(defined_vcc){}(c, w, i) == 0;
  });
  branch(table, "s_cbranch_vccnz", [](Context& c, Wave& w, const Instruction& i) {
    return decltype(defined_vcc){}(c, w, i) != 0;
  });
  branch(table, "s_cbranch_execz",
         [](Context&, Wave& w, const Instruction&) { return w.exec() == 0; });
  branch(table, "s_cbranch_execnz",
         [](Context&, Wave& w, const Instruction&) { return w.exec() != 0; });
  for (const auto& [suffix, dwords] :
       {std::pair{"", 1}, {"x2", 2}, {"x4", 4}, {"x8", 8}, {"x16", 16}}) {
    MemoryForm form;
    form.dwords = static_cast<std::uint8_t>(dwords);
    table.add(std::string("s_load_dword") + suffix, Unit::scalar_memory, &execute_load, form);
  }
}

void add_arithmetic(OpcodeTable& table) {
  with_scc(table, "s_add_u32", [](u32 a, u32 b) { return WithScc<u32>{a + b, a + b < a}; });
  with_scc(table, "s_sub_u32", [](u32 a, u32 b) { return WithScc<u32>{a - b, b > a}; });
  with_scc(table, "s_add_i32", [](u32 a, u32 b) {
    const i64 sum = static_cast<i64>(static_cast<i32>(a)) + static_cast<i32>(b);
    return WithScc<u32>{a + b, sum != static_cast<i32>(sum)};
  });
  with_scc(table, "s_sub_i32", [](u32 a, u32 b) {
    const i64 difference = static_cast<i64>(static_cast<i32>(a)) - static_cast<i32>(b);
    return WithScc<u32>{a - b, difference != static_cast<i32>(difference)};
  });
  with_carry(table, "s_addc_u32", [](u32 a, u32 b, bool carry) {
    const u64 sum = u64{a} + b + (carry ? 1 : 0);
    return WithScc<u32>{static_cast<u32>(sum), sum >> 32 != 0};
  });
  with_carry(table, "s_subb_u32", [](u32 a, u32 b, bool borrow) {
    const u64 subtrahend = u64{b} + (borrow ? 1 : 0);
    return WithScc<u32>{static_cast<u32>(a - subtrahend), subtrahend > a};
  });
  with_scc(table, "s_min_i32", [](u32 a, u32 b) {
    const bool first = static_cast<i32>(a) < static_cast<i32>(b);
    return WithScc<u32>{first ? a : b, first};
  });
  with_scc(table, "s_max_i32", [](u32 a, u32 b) {
    const bool first = static_cast<i32>(a) > static_cast<i32>(b);
    return WithScc<u32>{first ? a : b, first};
  });
  with_scc(table, "s_min_u32", [](u32 a, u32 b) { return WithScc<u32>{a < b ? a : b, a < b}; });
  with_scc(table, "s_max_u32", [](u32 a, u32 b) { return WithScc<u32>{a > b ? a : b, a > b}; });
  const auto shifted_add = [](u32 a, u32 b, int shift) {
    const u64 sum = (u64{a} << shift) + b;
    return WithScc<u32>{static_cast<u32>(sum), sum >> 32 != 0};
  };
  with_scc(table, "s_lshl1_add_u32", [](u32 a, u32 b) { return decltype(shifted_add){}(a, b, 1); });
  with_scc(table, "s_lshl2_add_u32", [](u32 a, u32 b) { return decltype(shifted_add){}(a, b, 2); });
  with_scc(table, "s_lshl3_add_u32", [](u32 a, u32 b) { return decltype(shifted_add){}(a, b, 3); });
  with_scc(table, "s_lshl4_add_u32", [](u32 a, u32 b) { return decltype(shifted_add){}(a, b, 4); });
  plain(table, "s_mul_i32", [](u32 a, u32 b) { return a * b; });
  plain(table, "s_mul_hi_u32", [](u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 32); });
  plain(table, "s_mul_hi_i32", [](u32 a, u32 b) {
    return static_cast<u32>((static_cast<i64>(static_cast<i32>(a)) * static_cast<i32>(b)) >> 32);
  });
  not_zero(table, "s_abs_i32", [](u32 a) { return static_cast<i32>(a) < 0 ? 0u - a : a; });
  // s_addk, s_mulk: the destination is the first source, the immediate operand 1.
  table.add("s_addk_i32", Unit::scalar, [](Context& context, Wave& wave, const Instruction& in) {
    const i64 sum =
        static_cast<i64>(read<i32>(wave, in.operand[0])) + immediate16(in.operand[1].bits);
    const u64 defined = read_defined<u32>(wave, in.operand[0]) == kAllLanes ? kAllLanes : 0;
    write(context, wave, in, static_cast<u32>(sum), defined);
    set_scc(wave, sum != static_cast<i32>(sum), defined != 0);
  });
  table.add("s_mulk_i32", Unit::scalar, [](Context& context, Wave& wave, const Instruction& in) {
    const u64 defined = read_defined<u32>(wave, in.operand[0]) == kAllLanes ? kAllLanes : 0;
    const auto factor = static_cast<u32>(immediate16(in.operand[1].bits));
    write(context, wave, in, read<u32>(wave, in.operand[0]) * factor, defined);
  });
}

void add_bits(OpcodeTable& table) {
  bitwise<And>(table, "and");
  bitwise<Or>(table, "or");
  bitwise<Xor>(table, "xor");
  bitwise<Inverted<And, true, false>>(table, "andn2");
  bitwise<Inverted<Or, true, false>>(table, "orn2");
  bitwise<Inverted<And, false, true>>(table, "nand");
  bitwise<Inverted<Or, false, true>>(table, "nor");
  bitwise<Inverted<Xor, false, true>>(table, "xnor");
  not_zero(table, "s_lshl_b32", [](u32 a, u32 b) { return a << (b & 31); });
  not_zero(table, "s_lshr_b32", [](u32 a, u32 b) { return a >> (b & 31); });
  not_zero(table, "s_ashr_i32", [](i32 a, u32 b) { return a >> (b & 31); });
  not_zero(table, "s_lshl_b64", [](u64 a, u32 b) { return a << (b & 63); });
  not_zero(table, "s_lshr_b64", [](u64 a, u32 b) { return a >> (b & 63); });
  not_zero(table, "s_ashr_i64", [](i64 a, u32 b) { return a >> (b & 63); });
  not_zero(table, "s_bfe_u32", [](u32 a, u32 field) {
    const u32 width = field >> 16 & 127, shifted = a >> (field & 31);
    return width >= 32 ? shifted : shifted & ((1u << width) - 1);
  });
  not_zero(table, "s_bfe_i32", [](i32 a, u32 field) {
    const u32 width = field >> 16 & 127;
    const i64 shifted = a >> (field & 31);
    if (width == 0) return i32{0};
    return static_cast<i32>(width >= 32 ? shifted : shifted << (64 - width) >> (64 - width));
  });
  not_zero(table, "s_bfe_u64", [](u64 a, u32 field) {
    const u32 width = field >> 16 & 127;
    const u64 shifted = a >> (field & 63);
    return width >= 64 ? shifted : shifted & ((u64{1} << width) - 1);
  });
  not_zero(table, "s_bfe_i64", [](i64 a, u32 field) {
    const u32 width = field >> 16 & 127;
    const i64 shifted = a >> (field & 63);
    if (width == 0) return i64{0};
    return width >= 64 ? shifted : shifted << (64 - width) >> (64 - width);
  });
  plain(table, "s_bfm_b32", [](u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); });
  plain(table, "s_bfm_b64", [](u32 a, u32 b) { return ((u64{1} << (a & 63)) - 1) << (b & 63); });
  not_zero(table, "s_bcnt1_i32_b32", [](u32 a) { return static_cast<u32>(std::popcount(a)); });
  not_zero(table, "s_bcnt1_i32_b64", [](u64 a) { return static_cast<u32>(std::popcount(a)); });
  plain(table, "s_ff1_i32_b32", [](u32 a) { return trailing_zeros_or_minus_one(a); });
  plain(table, "s_ff1_i32_b64", [](u64 a) { return trailing_zeros_or_minus_one(a); });
  plain(table, "s_flbit_i32_b32", [](u32 a) { return leading_zeros_or_minus_one(a); });
  plain(table, "s_flbit_i32_b64", [](u64 a) { return leading_zeros_or_minus_one(a); });
  plain(table, "s_brev_b32", [](u32 a) { return reverse_bits(a); });
  plain(table, "s_pack_ll_b32_b16", [](u32 a, u32 b) { return (a & 0xffff) | b << 16; });
  plain(table, "s_pack_lh_b32_b16", [](u32 a, u32 b) { return (a & 0xffff) | (b & 0xffff0000u); });
  plain(table, "s_pack_hh_b32_b16", [](u32 a, u32 b) { return a >> 16 | (b & 0xffff0000u); });
  table.add("s_bitcmp0_b32", Unit::scalar, &execute_bit_compare<false>);
  table.add("s_bitcmp1_b32", Unit::scalar, &execute_bit_compare<true>);
  table.add("s_bitset0_b32", Unit::scalar, [](Context& context, Wave& wave, const Instruction& in) {
    const u32 mask = 1u << (read<u32>(wave, in.operand[1]) & 31);
    write(context, wave, in, read<u32>(wave, in.operand[0]) & ~mask,
          read_defined<u32>(wave, in.operand[0]) | mask);
  });
  table.add("s_bitset1_b32", Unit::scalar, [](Context& context, Wave& wave, const Instruction& in) {
    const u32 mask = 1u << (read<u32>(wave, in.operand[1]) & 31);
    write(context, wave, in, read<u32>(wave, in.operand[0]) | mask,
          read_defined<u32>(wave, in.operand[0]) | mask);
  });
}

}  // namespace

void add_scalar(OpcodeTable& table) {
  add_moves(table);
  add_control(table);
  add_arithmetic(table);
  add_bits(table);
  compares<u32>(table, "u32");
  compares<i32>(table, "i32");
  compares<u64>(table, "u64");
}

}  // namespace gdn::gfx906
