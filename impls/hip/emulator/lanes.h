// Operands of vector instructions as 64 lanes: fetch with modifiers, store under exec.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "hip/emulator/context.h"
#include "hip/emulator/instruction.h"
#include "hip/emulator/wave.h"

namespace gdn::gfx906 {

using Half = _Float16;

/// The 32 bits a register holds, as a value of T, and back. 16-bit types use the low half.
template <typename T>
T from_bits(std::uint32_t bits) {
  if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(static_cast<std::uint16_t>(bits));
  } else {
    return std::bit_cast<T>(bits);
  }
}
template <typename T>
std::uint32_t to_bits(T value) {
  if constexpr (sizeof(T) == 2) {
    return std::bit_cast<std::uint16_t>(value);
  } else {
    return std::bit_cast<std::uint32_t>(value);
  }
}

/// The modifier clamp: to [0, 1], and NaN to zero (DX10_CLAMP, which the compiler always sets).
template <typename T>
T clamped(T value) {
  return value > 1 ? T{1} : value > 0 ? value : T{0};
}

struct LaneBuffer {
  alignas(64) std::uint32_t low[kLanes];
  alignas(64) std::uint32_t high[kLanes];  ///< second register of 64-bit values

  template <typename T>
  void store(int lane, T value) {
    if constexpr (sizeof(T) == 8) {
      const auto bits = std::bit_cast<std::uint64_t>(value);
      low[lane] = static_cast<std::uint32_t>(bits);
      high[lane] = static_cast<std::uint32_t>(bits >> 32);
    } else {
      low[lane] = to_bits(value);
    }
  }
};

/// A fetched operand: 64 values and which of them are defined.
template <typename T>
struct Source {
  const std::uint32_t* low = nullptr;
  const std::uint32_t* high = nullptr;
  std::uint64_t defined = 0;
  T operator[](int lane) const {
    if constexpr (sizeof(T) == 8) {
      return std::bit_cast<T>(low[lane] | static_cast<std::uint64_t>(high[lane]) << 32);
    } else {
      return from_bits<T>(low[lane]);
    }
  }
};

/// Scalar operand values (registers and constants).
std::uint32_t scalar_value(const Wave& wave, const Operand& operand);
std::uint64_t scalar_value64(const Wave& wave, const Operand& operand);
std::uint32_t scalar_defined(const Wave& wave, const Operand& operand);
std::uint64_t scalar_defined64(const Wave& wave, const Operand& operand);
/// Writes a 32- or 64-bit scalar register; an undefined bit in exec is a fault.
void write_scalar(Context& context, Wave& wave, const Instruction& instruction, int index,
                  std::uint32_t value, std::uint32_t defined);
void write_scalar64(Context& context, Wave& wave, const Instruction& instruction, int index,
                    std::uint64_t value, std::uint64_t defined);

enum class NumberKind : std::uint8_t { integer, float16, float32, float64, integer64 };
template <typename T>
constexpr NumberKind kind_of() {
  if constexpr (std::is_same_v<T, float>) return NumberKind::float32;
  if constexpr (std::is_same_v<T, double>) return NumberKind::float64;
  if constexpr (std::is_same_v<T, Half>) return NumberKind::float16;
  if constexpr (sizeof(T) == 8) return NumberKind::integer64;
  return NumberKind::integer;
}

/// The general fetch: constants, scalars, negation, DPP, SDWA. `write`, if given, loses the lanes
/// that DPP leaves unwritten.
void fetch(Context& context, const Wave& wave, const Instruction& instruction, int index,
           NumberKind kind, LaneBuffer& buffer, std::uint64_t& defined, std::uint64_t* write);

template <typename T>
Source<T> read_lanes(Context& context, const Wave& wave, const Instruction& instruction, int index,
                     LaneBuffer& buffer, std::uint64_t* write) {
  const Operand& operand = instruction.operand[static_cast<std::size_t>(index)];
  Source<T> source;
  const bool plain = operand.kind == Operand::Kind::vector && !operand.negate &&
                     !operand.absolute && !instruction.dpp && !instruction.sdwa;
  if (plain) {
    source.low = wave.v[operand.index];
    source.defined = wave.v_defined[operand.index];
    if constexpr (sizeof(T) == 8) {
      source.high = wave.v[operand.index + 1];
      source.defined &= wave.v_defined[operand.index + 1];
    }
    return source;
  }
  fetch(context, wave, instruction, index, kind_of<T>(), buffer, source.defined, write);
  source.low = buffer.low;
  source.high = buffer.high;
  return source;
}

/// Stores under the mask `write`, after the output modifiers.
void store_lanes(Context& context, Wave& wave, const Instruction& instruction, NumberKind kind,
                 LaneBuffer& result, std::uint64_t write, std::uint64_t defined);
/// One register under a mask, no modifiers.
void store_register(Wave& wave, int index, const std::uint32_t* values, std::uint64_t write,
                    std::uint64_t defined);

template <typename T>
void write_lanes(Context& context, Wave& wave, const Instruction& instruction, LaneBuffer& result,
                 std::uint64_t write, std::uint64_t defined) {
  store_lanes(context, wave, instruction, kind_of<T>(), result, write, defined);
}

}  // namespace gdn::gfx906
