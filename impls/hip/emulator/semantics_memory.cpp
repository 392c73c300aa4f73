// Vector memory: LDS (ds_read, ds_write, their two-address forms, ds_add), global and flat loads,
// stores and additions, and scratch. Every access is checked: bounds, undefined addresses and
// stored values, races between waves in LDS.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "hip/emulator/opcode_table.h"

namespace gdn::gfx906 {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

bool bit(u64 mask, int lane) { return (mask >> lane & 1) != 0; }

u64 registers_defined(const Wave& wave, int first, int count) {
  u64 defined = kAllLanes;
  for (int i = 0; i < count; ++i) defined &= wave.v_defined[first + i];
  return defined;
}
int register_count(const MemoryForm& form) { return std::max<int>(form.dwords, 1); }

/// What a lane loads into its registers from `memory`.
void load_lane(Wave& wave, const MemoryForm& form, int first, int lane,
               const std::uint8_t* memory) {
  if (form.dwords != 0) {
    for (int i = 0; i < form.dwords; ++i) std::memcpy(&wave.v[first + i][lane], memory + 4 * i, 4);
    return;
  }
  u32 value = *memory;
  if (form.bytes == 2) value |= u32{memory[1]} << 8;
  if (form.sign_extend) {
    const int shift = 32 - 8 * form.bytes;
    value = static_cast<u32>(static_cast<std::int32_t>(value << shift) >> shift);
  }
  u32& target = wave.v[first][lane];
  if (form.half == 1) value = (target & 0xffff0000u) | (value & 0xffff);
  if (form.half == 2) value = (target & 0xffffu) | value << 16;
  target = value;
}
void store_lane(const Wave& wave, const MemoryForm& form, int first, int lane,
                std::uint8_t* memory) {
  if (form.dwords != 0) {
    for (int i = 0; i < form.dwords; ++i) std::memcpy(memory + 4 * i, &wave.v[first + i][lane], 4);
    return;
  }
  const u32 value = wave.v[first][lane] >> (form.half == 2 ? 16 : 0);
  memory[0] = static_cast<std::uint8_t>(value);
  if (form.bytes == 2) memory[1] = static_cast<std::uint8_t>(value >> 8);
}
void mark_loaded(Wave& wave, const MemoryForm& form, int first, u64 exec, u64 defined) {
  for (int i = 0; i < register_count(form); ++i) {
    wave.v_defined[first + i] = (wave.v_defined[first + i] & ~exec) | (defined & exec);
  }
}

// ---- LDS

/// Cycles of one LDS access: groups of 32, 16 or 8 lanes (1, 2, 4 dwords a lane), in each group
/// every bank of 4 bytes serves one distinct dword per cycle.
void count_banks(Context& context, const u32* addresses, u64 active, int dwords) {
  const int group = dwords <= 1 ? 32 : dwords == 2 ? 16 : 8;
  for (int first = 0; first < kLanes; first += group) {
    u32 served[32][32];  // of each bank, the dwords asked for so far
    int banks[32] = {};
    int cycles = 0;
    for (int lane = first; lane < first + group; ++lane) {
      if (!bit(active, lane)) continue;
      for (int i = 0; i < std::max(dwords, 1); ++i) {
        const u32 word = addresses[lane] / 4 + static_cast<u32>(i);
        u32* const of_bank = served[word & 31];
        int& count = banks[word & 31];
        if (std::find(of_bank, of_bank + count, word) != of_bank + count) continue;
        of_bank[count++] = word;
        cycles = std::max(cycles, count);
      }
    }
    if (cycles == 0) continue;
    context.counters.lds_cycles += static_cast<u64>(cycles);
    context.counters.lds_conflict_cycles += static_cast<u64>(cycles - 1);
  }
}

/// One address of a DS instruction for all lanes: checks, race shadow, transfer.
void access_lds(Context& context, Wave& wave, const Instruction& in, const u32* addresses, u64 exec,
                int data, bool is_write) {
  LocalMemory& lds = context.lds;
  const MemoryForm& form = in.memory;
  const auto size = static_cast<u32>(form.size());
  u64 loaded_defined = kAllLanes;
  const u64 stored_defined =
      is_write ? registers_defined(wave, data, register_count(form)) : kAllLanes;
  bool race = false;
  u32 race_address = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!bit(exec, lane)) continue;
    const u32 address = addresses[lane];
    // Lanes commonly read what a neighbour, or the same lane of the previous eight, has read just
    // now: nothing new to check.
    const int same = lane >= 1 && addresses[lane - 1] == address && bit(exec, lane - 1)   ? lane - 1
                     : lane >= 8 && addresses[lane - 8] == address && bit(exec, lane - 8) ? lane - 8
                                                                                          : -1;
    if (same >= 0 && !is_write) {
      if (!bit(loaded_defined, same)) loaded_defined &= ~(u64{1} << lane);
      load_lane(wave, form, data, lane, lds.data() + address);
      continue;
    }
    if (!lds.in_bounds(address, size)) {
      context.report(FaultKind::out_of_bounds, wave, in,
                     "lane " + std::to_string(lane) + ": LDS byte " + std::to_string(address) +
                         " of " + std::to_string(lds.bytes()));
    }
    if (lds.touch(address, size, wave.id, is_write) && !race) {
      race = true;
      race_address = address;
    }
    if (is_write) {
      store_lane(wave, form, data, lane, lds.data() + address);
      lds.mark_defined(address, size, bit(stored_defined, lane));
    } else {
      if (!lds.defined(address, size)) loaded_defined &= ~(u64{1} << lane);
      load_lane(wave, form, data, lane, lds.data() + address);
    }
  }
  if (race) context.report(FaultKind::lds_race, wave, in, lds.describe(race_address));
  if (!is_write) {
    if ((exec & ~loaded_defined) != 0) {
      const int lane = std::countr_zero(exec & ~loaded_defined);
      context.last_undefined_lds_read = "LDS byte " + std::to_string(addresses[lane]) +
                                        " read before it was written at '" + in.text + "'";
    }
    mark_loaded(wave, form, data, exec, loaded_defined);
  }
  context.counters.lds_bytes += static_cast<u64>(std::popcount(exec)) * size;
  if (context.options.profile) count_banks(context, addresses, exec, form.dwords);
}

void lds_addresses(Context& context, Wave& wave, const Instruction& in, int base, u32 offset,
                   u32* addresses) {
  require_defined(context, wave, in, wave.exec(), wave.v_defined[base], "LDS address");
  for (int lane = 0; lane < kLanes; ++lane) addresses[lane] = wave.v[base][lane] + offset;
}
void execute_ds_read(Context& context, Wave& wave, const Instruction& in) {
  u32 addresses[kLanes];
  lds_addresses(context, wave, in, in.operand[1].index, static_cast<u32>(in.offset), addresses);
  access_lds(context, wave, in, addresses, wave.exec(), in.operand[0].index, false);
}
void execute_ds_write(Context& context, Wave& wave, const Instruction& in) {
  u32 addresses[kLanes];
  lds_addresses(context, wave, in, in.operand[0].index, static_cast<u32>(in.offset), addresses);
  access_lds(context, wave, in, addresses, wave.exec(), in.operand[1].index, true);
}
void execute_ds_read2(Context& context, Wave& wave, const Instruction& in) {
  u32 first[kLanes], second[kLanes];
  const auto unit = static_cast<u32>(in.memory.size() * in.memory.stride);
  const int base = in.operand[1].index, data = in.operand[0].index;
  lds_addresses(context, wave, in, base, static_cast<u32>(in.offset) * unit, first);
  lds_addresses(context, wave, in, base, static_cast<u32>(in.offset1) * unit, second);
  access_lds(context, wave, in, first, wave.exec(), data, false);
  access_lds(context, wave, in, second, wave.exec(), data + in.memory.dwords, false);
}
void execute_ds_write2(Context& context, Wave& wave, const Instruction& in) {
  u32 addresses[kLanes];
  const auto unit = static_cast<u32>(in.memory.size() * in.memory.stride);
  const int base = in.operand[0].index;
  lds_addresses(context, wave, in, base, static_cast<u32>(in.offset) * unit, addresses);
  access_lds(context, wave, in, addresses, wave.exec(), in.operand[1].index, true);
  lds_addresses(context, wave, in, base, static_cast<u32>(in.offset1) * unit, addresses);
  access_lds(context, wave, in, addresses, wave.exec(), in.operand[2].index, true);
}
template <typename T>
void execute_ds_add(Context& context, Wave& wave, const Instruction& in) {
  const int address = in.operand[in.returns_value ? 1 : 0].index;
  const int data = in.operand[in.returns_value ? 2 : 1].index;
  const u64 exec = wave.exec();
  require_defined(context, wave, in, exec, wave.v_defined[address] & wave.v_defined[data],
                  "LDS address or value");
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!bit(exec, lane)) continue;
    const u32 at = wave.v[address][lane] + static_cast<u32>(in.offset);
    if (!context.lds.in_bounds(at, 4)) {
      context.report(FaultKind::out_of_bounds, wave, in, "LDS byte " + std::to_string(at));
    }
    u32 old = 0;
    std::memcpy(&old, context.lds.data() + at, 4);
    const u32 sum = to_bits(from_bits<T>(old) + from_bits<T>(wave.v[data][lane]));
    std::memcpy(context.lds.data() + at, &sum, 4);
    if (in.returns_value) wave.v[in.operand[0].index][lane] = old;
  }
  if (in.returns_value) mark_loaded(wave, in.memory, in.operand[0].index, exec, kAllLanes);
}

// ---- global

void count_lines(Context& context, const Wave& wave, const u64* addresses, u64 exec, u64 size,
                 bool is_write) {
  u64 lines[2 * kLanes];
  int count = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!bit(exec, lane)) continue;
    lines[count++] = addresses[lane] / 64;
    lines[count++] = (addresses[lane] + size - 1) / 64;
  }
  std::sort(lines, lines + count);
  const u64* const end = std::unique(lines, lines + count);
  const auto distinct = static_cast<u64>(end - lines);
  context.counters.global_lines += distinct;
  const u64 bytes = static_cast<u64>(std::popcount(exec)) * size;
  context.counters.memory_path_cycles += std::max({u64{kLanes / 16}, distinct, (bytes + 63) / 64});
  if (!context.options.trace_lines) return;
  for (const u64* line = lines; line != end; ++line) {
    context.lines.push_back({wave.cycle, *line * 2 + (is_write ? 1 : 0)});
  }
}

/// Addresses of a global or flat access: operand `vaddr` (64 bits, or 32 with a scalar base in
/// operand `saddr`) plus the offset; all checked.
void global_addresses(Context& context, const Wave& wave, const Instruction& in, int vaddr,
                      int saddr, u64 size, bool is_write, u64* addresses) {
  const Operand& vector = in.operand[static_cast<std::size_t>(vaddr)];
  const bool scalar_base =
      in.num_operands > saddr &&
      in.operand[static_cast<std::size_t>(saddr)].kind == Operand::Kind::scalar;
  const u64 exec = wave.exec();
  u64 base = 0;
  u64 defined = wave.v_defined[vector.index];
  if (scalar_base) {
    const Operand& scalar = in.operand[static_cast<std::size_t>(saddr)];
    base = scalar_value64(wave, scalar);
    if (scalar_defined64(wave, scalar) != kAllLanes) defined = 0;
  } else {
    defined &= wave.v_defined[vector.index + 1];
  }
  require_defined(context, wave, in, exec, defined, "global address");
  base += static_cast<u64>(i64{in.offset});
  const u32* const low = wave.v[vector.index];
  const u32* const high = wave.v[vector.index + 1];
  for (int lane = 0; lane < kLanes; ++lane) {
    addresses[lane] = base + low[lane] + (scalar_base ? 0 : u64{high[lane]} << 32);
  }
  const auto require_range = [&](int lane) {
    const u64 address = addresses[lane];
    if (bit(exec, lane) && !context.last_range.holds(address, address + size)) {
      find_range(context, wave, in, address, size);
    }
  };
  // All lanes are commonly, active or not, in the range of the first active one: one by one only
  // where they are not.
  require_range(std::countr_zero(exec) % kLanes);
  const MemoryRange range = context.last_range;
  u64 farthest = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    farthest = std::max(farthest, addresses[lane] - range.first);
  }
  const u64 room = range.last - range.first;
  if (!(size <= room && farthest <= room - size)) {
    for (int lane = 0; lane < kLanes; ++lane) require_range(lane);
  }
  if (context.options.profile) count_lines(context, wave, addresses, exec, size, is_write);
}
void execute_global_load(Context& context, Wave& wave, const Instruction& in) {
  u64 addresses[kLanes];
  const auto size = static_cast<u64>(in.memory.size());
  global_addresses(context, wave, in, 1, 2, size, false, addresses);
  const u64 exec = wave.exec();
  const int first = in.operand[0].index;
  for (int i = 0; i < in.memory.dwords; ++i) {
    u32* const target = wave.v[first + i];
    for (int lane = 0; lane < kLanes; ++lane) {
      if (!bit(exec, lane)) continue;
      std::memcpy(target + lane, reinterpret_cast<const std::uint8_t*>(addresses[lane]) + 4 * i, 4);
    }
  }
  for (int lane = 0; lane < kLanes && in.memory.dwords == 0; ++lane) {
    if (!bit(exec, lane)) continue;
    load_lane(wave, in.memory, first, lane, reinterpret_cast<const std::uint8_t*>(addresses[lane]));
  }
  mark_loaded(wave, in.memory, first, exec, kAllLanes);
  ++context.counters.global_loads;
  context.counters.global_bytes_read += static_cast<u64>(std::popcount(exec)) * size;
}
void execute_global_store(Context& context, Wave& wave, const Instruction& in) {
  u64 addresses[kLanes];
  const auto size = static_cast<u64>(in.memory.size());
  global_addresses(context, wave, in, 0, 2, size, true, addresses);
  const u64 exec = wave.exec();
  const int data = in.operand[1].index;
  require_defined(context, wave, in, exec, registers_defined(wave, data, register_count(in.memory)),
                  "stored value");
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!bit(exec, lane)) continue;
    store_lane(wave, in.memory, data, lane, reinterpret_cast<std::uint8_t*>(addresses[lane]));
  }
  ++context.counters.global_stores;
  context.counters.global_bytes_written += static_cast<u64>(std::popcount(exec)) * size;
}
template <typename T>
void execute_global_add(Context& context, Wave& wave, const Instruction& in) {
  u64 addresses[kLanes];
  const int shift = in.returns_value ? 1 : 0;
  global_addresses(context, wave, in, shift, 2 + shift, 4, true, addresses);
  const u64 exec = wave.exec();
  const int data = in.operand[static_cast<std::size_t>(1 + shift)].index;
  require_defined(context, wave, in, exec, wave.v_defined[data], "added value");
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!bit(exec, lane)) continue;
    std::atomic_ref<u32> memory(*reinterpret_cast<u32*>(addresses[lane]));
    u32 old = memory.load(std::memory_order_relaxed);
    while (!memory.compare_exchange_weak(
        old, to_bits(from_bits<T>(old) + from_bits<T>(wave.v[data][lane])))) {
    }
    if (in.returns_value) wave.v[in.operand[0].index][lane] = old;
  }
  if (in.returns_value) mark_loaded(wave, in.memory, in.operand[0].index, exec, kAllLanes);
  context.counters.global_bytes_written += static_cast<u64>(std::popcount(exec)) * 4;
}

// ---- scratch

/// buffer_load/store through the swizzled scratch descriptor: data, vaddr or off, srsrc, soffset.
/// Each lane has its own bytes.
template <bool is_load>
void execute_scratch(Context& context, Wave& wave, const Instruction& in) {
  const u32 bytes = context.kernel.scratch_bytes;
  const auto size = static_cast<u32>(in.memory.size());
  const u32 scalar_offset = scalar_value(wave, in.operand[3]) / kLanes;
  const u64 exec = wave.exec();
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!bit(exec, lane)) continue;
    u64 at = u64{scalar_offset} + static_cast<u32>(in.offset);
    if (in.offset_enable) at += wave.v[in.operand[1].index][lane];
    if (at + size > bytes) {
      context.report(FaultKind::out_of_bounds, wave, in,
                     "scratch byte " + std::to_string(at) + " of " + std::to_string(bytes));
    }
    std::uint8_t* memory = wave.scratch.data() + static_cast<u64>(lane) * bytes + at;
    if (is_load) {
      load_lane(wave, in.memory, in.operand[0].index, lane, memory);
    } else {
      store_lane(wave, in.memory, in.operand[0].index, lane, memory);
    }
  }
  if (is_load) mark_loaded(wave, in.memory, in.operand[0].index, exec, kAllLanes);
}

// ---- names

struct NamedForm {
  const char* name;
  MemoryForm form;
};
MemoryForm dwords(int count) { return {static_cast<std::uint8_t>(count), 0, false, 0, 1}; }
MemoryForm part(int bytes, bool sign_extend, int half = 0) {
  return {0, static_cast<std::uint8_t>(bytes), sign_extend, static_cast<std::uint8_t>(half), 1};
}

}  // namespace

void add_memory(OpcodeTable& table) {
  for (const std::string space : {"global_", "flat_"}) {
    for (const NamedForm& load : {NamedForm{"dword", dwords(1)},
                                  {"dwordx2", dwords(2)},
                                  {"dwordx3", dwords(3)},
                                  {"dwordx4", dwords(4)},
                                  {"ubyte", part(1, false)},
                                  {"sbyte", part(1, true)},
                                  {"ushort", part(2, false)},
                                  {"sshort", part(2, true)},
                                  {"short_d16", part(2, false, 1)},
                                  {"short_d16_hi", part(2, false, 2)}}) {
      table.add(space + "load_" + load.name, Unit::global, &execute_global_load, load.form);
    }
    for (const NamedForm& store : {NamedForm{"dword", dwords(1)},
                                   {"dwordx2", dwords(2)},
                                   {"dwordx3", dwords(3)},
                                   {"dwordx4", dwords(4)},
                                   {"byte", part(1, false)},
                                   {"byte_d16_hi", part(1, false, 2)},
                                   {"short", part(2, false)},
                                   {"short_d16_hi", part(2, false, 2)}}) {
      table.add(space + "store_" + store.name, Unit::global, &execute_global_store, store.form);
    }
    table.add(space + "atomic_add", Unit::global, &execute_global_add<u32>, dwords(1));
  }
  for (const NamedForm& form : {NamedForm{"dword", dwords(1)},
                                {"dwordx2", dwords(2)},
                                {"dwordx3", dwords(3)},
                                {"dwordx4", dwords(4)}}) {
    table.add(std::string("buffer_load_") + form.name, Unit::scratch, &execute_scratch<true>,
              form.form);
    table.add(std::string("buffer_store_") + form.name, Unit::scratch, &execute_scratch<false>,
              form.form);
  }
  for (const NamedForm& form : {NamedForm{"b32", dwords(1)},
                                {"b64", dwords(2)},
                                {"b96", dwords(3)},
                                {"b128", dwords(4)},
                                {"u16", part(2, false)},
                                {"i16", part(2, true)},
                                {"u8", part(1, false)},
                                {"i8", part(1, true)},
                                {"u16_d16", part(2, false, 1)},
                                {"u16_d16_hi", part(2, false, 2)}}) {
    table.add(std::string("ds_read_") + form.name, Unit::lds, &execute_ds_read, form.form);
  }
  for (const NamedForm& form : {NamedForm{"b32", dwords(1)},
                                {"b64", dwords(2)},
                                {"b96", dwords(3)},
                                {"b128", dwords(4)},
                                {"b16", part(2, false)},
                                {"b16_d16_hi", part(2, false, 2)},
                                {"b8", part(1, false)}}) {
    table.add(std::string("ds_write_") + form.name, Unit::lds, &execute_ds_write, form.form);
  }
  for (const int stride : {1, 64}) {
    const std::string suffix = stride == 1 ? "_" : "st64_";
    for (const NamedForm& form : {NamedForm{"b32", dwords(1)}, {"b64", dwords(2)}}) {
      MemoryForm strided = form.form;
      strided.stride = static_cast<std::uint8_t>(stride);
      table.add("ds_read2" + suffix + form.name, Unit::lds, &execute_ds_read2, strided);
      table.add("ds_write2" + suffix + form.name, Unit::lds, &execute_ds_write2, strided);
    }
  }
  table.add("ds_add_u32", Unit::lds, &execute_ds_add<u32>, dwords(1));
  table.add("ds_add_rtn_u32", Unit::lds, &execute_ds_add<u32>, dwords(1));
  table.add("ds_add_f32", Unit::lds, &execute_ds_add<float>, dwords(1));
  table.add("ds_add_rtn_f32", Unit::lds, &execute_ds_add<float>, dwords(1));
}

}  // namespace gdn::gfx906
