#include "hip/emulator/lanes.h"

#include <array>
#include <cstring>

namespace gdn::gfx906 {
namespace {

/// The lane that `lane` reads under a DPP control, or -1 (Vega ISA, "DPP_CTRL enumeration").
int dpp_source(int control, int lane) {
  const int row = lane & ~15;
  const int position = lane & 15;
  const int amount = control & 15;
  if (control < 0x100) return (lane & ~3) | (control >> (2 * (lane & 3)) & 3);         // quad_perm
  if ((control & 0x1f0) == 0x100) return position + amount < 16 ? lane + amount : -1;  // row_shl
  if ((control & 0x1f0) == 0x110) return position >= amount ? lane - amount : -1;      // row_shr
  if ((control & 0x1f0) == 0x120) return row | ((position - amount) & 15);             // row_ror
  switch (control) {
    case 0x130:
      return lane < 63 ? lane + 1 : -1;  // wave_shl
    case 0x134:
      return (lane + 1) & 63;  // wave_rol
    case 0x138:
      return lane - 1;  // wave_shr
    case 0x13c:
      return (lane - 1) & 63;  // wave_ror
    case 0x140:
      return row | (15 - position);  // row_mirror
    case 0x141:
      return (lane & ~7) | (7 - (lane & 7));  // row_half_mirror
    case 0x142:
      return row > 0 ? row - 1 : -1;  // row_bcast:15
    default:
      return lane >= 32 ? 31 : -1;  // row_bcast:31
  }
}

using DppSources = std::array<std::int8_t, kLanes>;
const DppSources& dpp_sources(int control) {
  constexpr int kControls = 0x144;
  static const auto sources = [] {
    std::array<DppSources, kControls> all;
    for (int i = 0; i < kControls; ++i) {
      for (int lane = 0; lane < kLanes; ++lane) {
        all[static_cast<std::size_t>(i)][static_cast<std::size_t>(lane)] =
            static_cast<std::int8_t>(dpp_source(i, lane));
      }
    }
    return all;
  }();
  return sources[static_cast<std::size_t>(control)];
}

/// Lanes of the rows of 16 and, in each, the banks of 4 that a DPP instruction writes.
std::uint64_t selected_lanes(const Instruction& instruction) {
  std::uint64_t lanes = 0;
  for (int bank = 0; bank < 16; ++bank) {
    if ((instruction.row_mask >> (bank / 4) & 1) != 0 &&
        (instruction.bank_mask >> (bank % 4) & 1) != 0) {
      lanes |= std::uint64_t{0xf} << (4 * bank);
    }
  }
  return lanes;
}

void apply_dpp(const Wave& wave, const Instruction& instruction, LaneBuffer& buffer,
               std::uint64_t& defined, std::uint64_t& write) {
  std::uint32_t moved[kLanes];
  std::uint64_t moved_defined = 0, valid = 0;
  const std::uint64_t exec = wave.exec();
  const DppSources& sources = dpp_sources(instruction.dpp_control);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int from = sources[static_cast<std::size_t>(lane)];
    const std::uint64_t is_valid = from >= 0 ? exec >> from & 1 : 0;
    const std::uint64_t is_defined = is_valid != 0 ? defined >> from & 1 : 1;
    moved[lane] = is_valid != 0 ? buffer.low[from] : 0;
    valid |= is_valid << lane;
    moved_defined |= is_defined << lane;
  }
  write &= selected_lanes(instruction) & (instruction.bound_ctrl ? kAllLanes : valid);
  std::memcpy(buffer.low, moved, sizeof(moved));
  defined = moved_defined;
}

std::uint32_t select_part(std::uint32_t value, int select, bool sign_extend) {
  if (select < 4) {
    value = value >> (8 * select) & 0xff;
    return sign_extend ? static_cast<std::uint32_t>(static_cast<std::int8_t>(value)) : value;
  }
  if (select < 6) {
    value = value >> (16 * (select - 4)) & 0xffff;
    return sign_extend ? static_cast<std::uint32_t>(static_cast<std::int16_t>(value)) : value;
  }
  return value;
}

/// Position of an operand among the sources: 0, 1 or 2. Carry instructions write two destinations.
int source_position(const Instruction& instruction, int index) {
  const bool two_destinations = instruction.num_operands > 3 &&
                                instruction.operand[1].kind == Operand::Kind::scalar &&
                                instruction.operand[1].count == 2;
  return index - (two_destinations ? 2 : 1);
}

}  // namespace

std::uint32_t scalar_value(const Wave& wave, const Operand& operand) {
  if (operand.kind == Operand::Kind::constant) return operand.bits;
  return operand.index == kScc ? static_cast<std::uint32_t>(wave.scc) : wave.s[operand.index];
}

std::uint64_t scalar_value64(const Wave& wave, const Operand& operand) {
  if (operand.kind == Operand::Kind::constant) {
    if (operand.fraction) return std::bit_cast<std::uint64_t>(operand.real);
    if (operand.literal) return operand.bits;
    return static_cast<std::uint64_t>(
        static_cast<std::int64_t>(static_cast<std::int32_t>(operand.bits)));
  }
  return operand.count == 1 ? wave.s[operand.index] : wave.scalar64(operand.index);
}

std::uint32_t scalar_defined(const Wave& wave, const Operand& operand) {
  if (operand.kind == Operand::Kind::constant) return ~std::uint32_t{0};
  if (operand.index == kScc) return wave.scc_defined ? ~std::uint32_t{0} : 0;
  return wave.s_defined[operand.index];
}

std::uint64_t scalar_defined64(const Wave& wave, const Operand& operand) {
  if (operand.kind == Operand::Kind::constant) return kAllLanes;
  return operand.count == 1 ? wave.s_defined[operand.index] | ~std::uint64_t{0xffffffff}
                            : wave.scalar64_defined(operand.index);
}

void write_scalar(Context& context, Wave& wave, const Instruction& instruction, int index,
                  std::uint32_t value, std::uint32_t defined) {
  if (index >= kExec && defined != ~std::uint32_t{0}) {
    context.report(FaultKind::undefined_value, wave, instruction, "exec mask");
    defined = ~std::uint32_t{0};
  }
  wave.s[index] = value;
  wave.s_defined[index] = defined;
}

void write_scalar64(Context& context, Wave& wave, const Instruction& instruction, int index,
                    std::uint64_t value, std::uint64_t defined) {
  if (index == kExec && defined != kAllLanes) {
    context.report(FaultKind::undefined_value, wave, instruction, "exec mask");
    defined = kAllLanes;
  }
  wave.set_scalar64(index, value, defined);
}

void fetch(Context& context, const Wave& wave, const Instruction& instruction, int index,
           NumberKind kind, LaneBuffer& buffer, std::uint64_t& defined, std::uint64_t* write) {
  const Operand& operand = instruction.operand[static_cast<std::size_t>(index)];
  const bool wide = kind == NumberKind::float64 || kind == NumberKind::integer64;
  if (operand.kind == Operand::Kind::vector) {
    std::memcpy(buffer.low, wave.v[operand.index], sizeof(buffer.low));
    defined = wave.v_defined[operand.index];
    if (wide) {
      std::memcpy(buffer.high, wave.v[operand.index + 1], sizeof(buffer.high));
      defined &= wave.v_defined[operand.index + 1];
    }
  } else if (operand.kind == Operand::Kind::none || operand.kind == Operand::Kind::off) {
    context.report(FaultKind::bad_instruction, wave, instruction, "a source operand is missing");
  } else {
    std::uint32_t low = 0, high = 0;
    if (wide) {
      const std::uint64_t value = scalar_value64(wave, operand);
      low = static_cast<std::uint32_t>(value);
      high = static_cast<std::uint32_t>(value >> 32);
      // A 32-bit literal of a float64 instruction is its high half.
      if (kind == NumberKind::float64 && operand.literal) {
        high = low;
        low = 0;
      }
      defined = scalar_defined64(wave, operand) == kAllLanes ? kAllLanes : 0;
    } else {
      low = kind == NumberKind::float16 && operand.fraction
                ? to_bits(static_cast<Half>(operand.real))
                : scalar_value(wave, operand);
      defined = scalar_defined(wave, operand) == ~std::uint32_t{0} ? kAllLanes : 0;
    }
    for (int lane = 0; lane < kLanes; ++lane) buffer.low[lane] = low;
    if (wide) {
      for (int lane = 0; lane < kLanes; ++lane) buffer.high[lane] = high;
    }
  }
  if (instruction.dpp && write != nullptr) apply_dpp(wave, instruction, buffer, defined, *write);
  if (instruction.sdwa) {
    const int position = source_position(instruction, index);
    if (position >= 0 && position < 2) {
      const int select = instruction.source_select[static_cast<std::size_t>(position)];
      for (std::uint32_t& value : buffer.low)
        value = select_part(value, select, operand.sign_extend);
    }
  }
  if (instruction.packed || (!operand.negate && !operand.absolute)) return;
  std::uint32_t* words = wide ? buffer.high : buffer.low;
  const std::uint32_t sign = kind == NumberKind::float16 ? 0x8000u : 0x80000000u;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (operand.absolute) words[lane] &= ~sign;
    if (operand.negate) words[lane] ^= sign;
  }
}

void store_register(Wave& wave, int index, const std::uint32_t* values, std::uint64_t write,
                    std::uint64_t defined) {
  std::uint32_t* destination = wave.v[index];
  if (write == kAllLanes) {
    std::memcpy(destination, values, sizeof(wave.v[0]));
  } else {
    for (int lane = 0; lane < kLanes; ++lane) {
      destination[lane] = (write >> lane & 1) != 0 ? values[lane] : destination[lane];
    }
  }
  wave.v_defined[index] = (wave.v_defined[index] & ~write) | (defined & write);
}

void store_lanes(Context& context, Wave& wave, const Instruction& instruction, NumberKind kind,
                 LaneBuffer& result, std::uint64_t write, std::uint64_t defined) {
  const int index = instruction.operand[0].index;
  if (instruction.clamp) {
    if (kind != NumberKind::float32 && kind != NumberKind::float16) {
      context.report(FaultKind::bad_instruction, wave, instruction,
                     "clamp of this type is not modelled");
    }
    for (std::uint32_t& bits : result.low) {
      bits = kind == NumberKind::float32
                 ? to_bits(clamped(from_bits<float>(bits)))
                 : to_bits(static_cast<Half>(clamped(static_cast<float>(from_bits<Half>(bits)))));
    }
  }
  if (instruction.sdwa && instruction.destination_select != 6) {
    const int select = instruction.destination_select;
    const int shift = select < 4 ? 8 * select : 16 * (select - 4);
    const std::uint32_t mask = (select < 4 ? 0xffu : 0xffffu) << shift;
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::uint32_t kept = instruction.preserve ? wave.v[index][lane] & ~mask : 0;
      result.low[lane] = (result.low[lane] << shift & mask) | kept;
    }
    if (instruction.preserve) defined &= wave.v_defined[index];
  }
  store_register(wave, index, result.low, write, defined);
  if (kind == NumberKind::float64 || kind == NumberKind::integer64) {
    store_register(wave, index + 1, result.high, write, defined);
  }
}

}  // namespace gdn::gfx906
