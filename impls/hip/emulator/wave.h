// The registers of one wave of 64 lanes, and beside each register which of its bits or lanes have
// been defined: reading what nobody wrote is found when the value decides something (a branch, an
// address, a stored value), never hidden behind a lucky zero.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "hip/emulator/instruction.h"

namespace gdn::gfx906 {

inline constexpr int kVectorRegisters = 256;
inline constexpr std::uint64_t kAllLanes = ~std::uint64_t{0};

enum class WaveState : std::uint8_t { running, at_barrier, done };

struct alignas(64) Wave {
  std::uint32_t v[kVectorRegisters][kLanes];
  std::uint64_t v_defined[kVectorRegisters];  ///< bit l: lane l
  std::uint32_t s[kScalarRegisters];
  std::uint32_t s_defined[kScalarRegisters];  ///< bit b: bit b of the register
  bool scc = false;
  bool scc_defined = false;
  WaveState state = WaveState::running;
  int id = 0;
  int pc = 0;                         ///< index into the kernel's code
  std::vector<std::uint8_t> scratch;  ///< [lane][bytes per lane]
  std::mt19937 noise;

  // The wave's own timeline, in shader cycles (cost_model.h).
  std::uint64_t cycle = 0;
  std::uint64_t vector_cycles = 0;                ///< VALU issue since the last barrier
  std::uint64_t lds_free = 0;                     ///< when the LDS has served what this wave asked
  std::uint64_t memory_free = 0;                  ///< the same of the vector-memory path
  std::vector<std::uint64_t> vector_memory_done;  ///< completion times of accesses, oldest first
  std::vector<std::uint64_t> lds_done;

  std::uint64_t scalar64(int index) const {
    return s[index] | static_cast<std::uint64_t>(s[index + 1]) << 32;
  }
  std::uint64_t scalar64_defined(int index) const {
    return s_defined[index] | static_cast<std::uint64_t>(s_defined[index + 1]) << 32;
  }
  void set_scalar64(int index, std::uint64_t value, std::uint64_t defined = kAllLanes) {
    s[index] = static_cast<std::uint32_t>(value);
    s[index + 1] = static_cast<std::uint32_t>(value >> 32);
    s_defined[index] = static_cast<std::uint32_t>(defined);
    s_defined[index + 1] = static_cast<std::uint32_t>(defined >> 32);
  }
  void set_scalar(int index, std::uint32_t value) {
    s[index] = value;
    s_defined[index] = ~std::uint32_t{0};
  }
  std::uint64_t exec() const { return scalar64(kExec); }
  std::uint64_t vcc() const { return scalar64(kVcc); }
};

}  // namespace gdn::gfx906
