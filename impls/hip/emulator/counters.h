// What a launch executed and moved. Sums over waves; merged over host threads.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "hip/emulator/instruction.h"

namespace gdn::gfx906 {

struct Counters {
  std::array<std::uint64_t, kUnits> instructions{};  ///< wave instructions by unit
  std::uint64_t waves = 0;
  std::uint64_t workgroups = 0;
  std::uint64_t barriers = 0;  ///< per workgroup

  std::uint64_t global_loads = 0;  ///< wave instructions
  std::uint64_t global_stores = 0;
  std::uint64_t global_bytes_read = 0;  ///< asked for by active lanes
  std::uint64_t global_bytes_written = 0;
  std::uint64_t lds_bytes = 0;

  // Only with LaunchOptions::profile.
  /// Distinct 64-byte cache lines per access, summed: lines * 64 / bytes asked for is the
  /// coalescing overhead.
  std::uint64_t global_lines = 0;
  /// Cycles the LDS needs (32 banks of 4 bytes; lanes served in groups of 32, 16 or 8 for 1, 2 or 4
  /// dwords), and how many of them only because two addresses of a group share a bank.
  std::uint64_t lds_cycles = 0;
  std::uint64_t lds_conflict_cycles = 0;
  /// Cycles the CUs' vector-memory paths need: per access the largest of 16 addresses a cycle, one
  /// line a cycle and 64 bytes a cycle.
  std::uint64_t memory_path_cycles = 0;
  /// Cycles of a workgroup alone on a CU (cost_model.h), summed over workgroups.
  std::uint64_t path_cycles = 0;
  std::uint64_t vector_cycles = 0;  ///< VALU cycles over all waves
  std::map<std::string, std::uint64_t> by_mnemonic;

  // Only with an L2 (modelled_card.h).
  std::uint64_t l2_hits = 0;               ///< of global_lines
  std::uint64_t memory_lines_read = 0;     ///< lines the L2 read from memory
  std::uint64_t memory_lines_written = 0;  ///< lines it wrote back

  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : instructions) sum += count;
    return sum;
  }
  void add(const Counters& other);
  /// Of `copies` launches alike.
  Counters times(std::uint64_t copies) const;
};

}  // namespace gdn::gfx906
