// Values from lane to lane: readlane and writelane, and the three DS instructions that use the LDS
// crossbar without touching LDS memory. A lane that is off delivers zero.
#include <bit>
#include <cstring>

#include "hip/emulator/opcode_table.h"

namespace gdn::gfx906 {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

bool bit(u64 mask, int lane) { return (mask >> lane & 1) != 0; }

void read_one_lane(Context& context, Wave& wave, const Instruction& in, int lane) {
  const Operand& source = in.operand[1];
  if (source.kind != Operand::Kind::vector) {
    write_scalar(context, wave, in, in.operand[0].index, scalar_value(wave, source),
                 scalar_defined(wave, source));
    return;
  }
  write_scalar(context, wave, in, in.operand[0].index, wave.v[source.index][lane],
               bit(wave.v_defined[source.index], lane) ? ~u32{0} : 0);
}
int selected_lane(Context& context, const Wave& wave, const Instruction& in) {
  if (~scalar_defined(wave, in.operand[2]) != 0) {
    context.report(FaultKind::undefined_value, wave, in, "lane number");
  }
  return static_cast<int>(scalar_value(wave, in.operand[2]) & 63);
}
void execute_readlane(Context& context, Wave& wave, const Instruction& in) {
  read_one_lane(context, wave, in, selected_lane(context, wave, in));
}
void execute_readfirstlane(Context& context, Wave& wave, const Instruction& in) {
  const u64 exec = wave.exec();
  read_one_lane(context, wave, in, exec == 0 ? 0 : std::countr_zero(exec));
}
void execute_writelane(Context& context, Wave& wave, const Instruction& in) {
  const int lane = selected_lane(context, wave, in);
  const int index = in.operand[0].index;
  wave.v[index][lane] = scalar_value(wave, in.operand[1]);
  const u64 mask = u64{1} << lane;
  const bool defined = scalar_defined(wave, in.operand[1]) == ~u32{0};
  wave.v_defined[index] = (wave.v_defined[index] & ~mask) | (defined ? mask : 0);
}

/// Each lane takes register `data` of lane source(lane).
template <typename F>
void gather(Wave& wave, const Instruction& in, int data, u64 address_defined, F source) {
  u32 result[kLanes];
  u64 defined = 0;
  const u64 exec = wave.exec();
  for (int lane = 0; lane < kLanes; ++lane) {
    const int from = source(lane);
    result[lane] = bit(exec, from) ? wave.v[data][from] : 0;
    const bool known = !bit(exec, from) || bit(wave.v_defined[data], from);
    if (known && bit(address_defined, lane)) defined |= u64{1} << lane;
  }
  store_register(wave, in.operand[0].index, result, exec, defined);
}
void execute_bpermute(Context&, Wave& wave, const Instruction& in) {
  const int address = in.operand[1].index;
  gather(wave, in, in.operand[2].index, wave.v_defined[address], [&](int lane) {
    return static_cast<int>((wave.v[address][lane] + static_cast<u32>(in.offset)) >> 2 & 63);
  });
}
void execute_swizzle(Context&, Wave& wave, const Instruction& in) {
  const u32 pattern = static_cast<u32>(in.offset);
  gather(wave, in, in.operand[1].index, kAllLanes, [&](int lane) {
    if ((pattern & 0x8000) != 0) {  // quad permutation
      return (lane & ~3) | static_cast<int>(pattern >> (2 * (lane & 3)) & 3);
    }
    const u32 and_mask = pattern & 31, or_mask = pattern >> 5 & 31, xor_mask = pattern >> 10 & 31;
    const u32 within = (((static_cast<u32>(lane) & 31) & and_mask) | or_mask) ^ xor_mask;
    return (lane & 32) | static_cast<int>(within);
  });
}
void execute_permute(Context&, Wave& wave, const Instruction& in) {
  const int address = in.operand[1].index, data = in.operand[2].index;
  u32 result[kLanes] = {};
  u64 defined = kAllLanes;
  const u64 exec = wave.exec();
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!bit(exec, lane)) continue;
    const int to =
        static_cast<int>((wave.v[address][lane] + static_cast<u32>(in.offset)) >> 2 & 63);
    result[to] = wave.v[data][lane];
    if (!bit(wave.v_defined[data] & wave.v_defined[address], lane)) defined &= ~(u64{1} << to);
  }
  store_register(wave, in.operand[0].index, result, exec, defined);
}

}  // namespace

void add_lane_exchange(OpcodeTable& table) {
  table.add("v_readlane_b32", Unit::vector, &execute_readlane);
  table.add("v_readfirstlane_b32", Unit::vector, &execute_readfirstlane);
  table.add("v_writelane_b32", Unit::vector, &execute_writelane);
  table.add("ds_bpermute_b32", Unit::cross_lane, &execute_bpermute);
  table.add("ds_permute_b32", Unit::cross_lane, &execute_permute);
  table.add("ds_swizzle_b32", Unit::cross_lane, &execute_swizzle);
}

}  // namespace gdn::gfx906
