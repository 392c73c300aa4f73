// A modelled time for an MI50, from what the emulator counted. Never a measurement: no MI50 has run
// this code. Every number it yields is labelled `modelled` wherever it is shown.
//
// Three levels, each the larger of what has to be done and what has to be waited for.
//
// 1. A wave. Instructions issue one after another, each for the cycles of its unit (issue_cycles):
//    a wave never issues two at once, and a dependent VALU instruction follows without a gap (the
//    64 lanes take 4 cycles, which is the pipeline's depth). LDS, scalar and vector-memory results
//    arrive after a latency and after what the same wave asked for earlier; the wave waits where
//    the code says s_waitcnt. One wave draws at most 64 bytes a cycle from the LDS.
// 2. A workgroup alone on its CU, barrier to barrier: the slowest wave's timeline, or the VALU
//    cycles of the busiest SIMD (wave w runs on SIMD w mod 4), or the LDS cycles, or the cycles of
//    the vector-memory path, whichever is largest. The sum over intervals is the workgroup's path.
// 3. The card. Workgroups spread evenly over the CUs; the busiest CU decides. It holds as many as
//    registers, LDS and 10 waves a SIMD allow, and takes the larger of
//      latency     rounds of resident workgroups times the path,
//      VALU        vector cycles over 4 SIMDs,
//      LDS         cycles of its 32 banks,
//      memory path 16 addresses, one line and 64 bytes a cycle;
//    beside it, for the whole card, the L2's bandwidth and the memory's. Each kernel adds a
//    dispatch.
//
// Assumptions, and where each figure is from. Peak rates: AMD's announcement of the MI50 and MI60,
// November 2018 (MI50: 13.4 TFLOP/s float32, 26.8 float16, 6.7 float64). Measured on gfx906 by
// others: exabit-io/llama.cpp-gfx906-tuning, ISA-NOTES.md (13.8 TFLOP/s float32 on 64 CUs at 1730
// MHz, memory, dispatch) and skyne98/wiki-gfx906, gfx906-latency-hiding-ops.md (lane exchanges).
// Latencies, of an MI308X for want of this card's: tingqli/pyhip, mem_latency.md.
// What it makes of kernels that ask for one thing each, beside those figures:
// harness/gfx906/analysis/README.md.
//   - 60 CUs at the peak engine clock of 1725 MHz throughout. A card held to its power limit runs
//     slower.
//   - VALU 4 cycles per wave instruction (16 lanes a SIMD), float64 8, transcendental functions and
//     32-bit integer products 16: the ISA's rates; AMD's peak rates follow from them.
//   - LDS: 32 banks of 4 bytes, one dword per bank and cycle; lanes are served 32, 16 or 8 at a
//     time for 1, 2 or 4 dwords each. Latency 64 cycles: of the GCN and CDNA families (52 to 64
//     measured on an MI308X), not published for this card. A lane exchange through the crossbar
//     (ds_bpermute) takes 7 cycles: the rate others measured on gfx906, had nothing else bound it.
//   - Memory latency 500 cycles for every vector access, hit or miss; 200 for scalar loads. Not
//     published for this card; 500 to 800 measured on an MI308X.
//   - L2: 4 MB (l2_cache.h), 16 channels of 64 bytes a cycle. Hits save memory traffic, not
//     latency. The 16 KB L1 of a CU is not modelled: every line touched is asked of the L2.
//   - Memory: 0.885 TB/s reading, and writing so that a copy moves 0.713 TB/s: both measured by
//     others on gfx906.
//   - 4 microseconds from kernel to kernel: the dispatch floor others measured.
// Not modelled: instruction fetch, the operand hazards beyond the compiler's s_nop, atomics'
// serialisation, contention for issue between resident workgroups that are each within their own
// bounds, clock changes, the tail of a grid beyond whole rounds.
#pragma once

#include <cstdint>
#include <string>

#include "hip/emulator/code_object.h"
#include "hip/emulator/counters.h"
#include "hip/emulator/wave.h"

namespace gdn::gfx906 {

struct CardModel {
  int compute_units = 60;
  int simds_per_unit = 4;
  double clock_mhz = 1725;
  int lds_latency = 64;  ///< cycles
  int scalar_latency = 200;
  int global_latency = 500;
  double lds_bytes_per_cycle_of_a_wave = 64;
  int crossbar_cycles = 7;  ///< LDS cycles of one ds_bpermute, ds_permute or ds_swizzle
  std::int64_t l2_bytes = std::int64_t{4} << 20;
  double l2_bytes_per_cycle = 16 * 64;
  double read_tb_per_s = 0.885;
  double copy_tb_per_s = 0.713;  ///< read + written bytes
  double dispatch_us = 4;

  /// What is left for writes when a copy moves as many bytes each way.
  double write_tb_per_s() const { return 1 / (2 / copy_tb_per_s - 1 / read_tb_per_s); }
};

/// Cycles an instruction of this unit occupies its wave's issue slot.
int issue_cycles(Unit unit);
/// The same of one instruction: s_nop N waits N + 1 slots.
int issue_cycles(const Instruction& instruction);

/// What one instruction asked of the CU's shared units.
struct AccessCost {
  std::uint64_t lds_cycles = 0;
  std::uint64_t lds_bytes = 0;
  std::uint64_t memory_path_cycles = 0;
};
/// Advances the wave's timeline past one instruction.
void advance_timeline(Wave& wave, const Instruction& instruction, const AccessCost& cost,
                      const CardModel& card);

/// Workgroups of `threads` work-items that one CU holds at once, at least 1.
int resident_workgroups(const Kernel& kernel, std::uint32_t dynamic_lds_bytes,
                        std::uint64_t threads_per_workgroup, const CardModel& card = {});

/// The modelled time of one launch, by what would take it; microseconds.
struct ModelledTime {
  double dispatch_us = 0;
  double latency_us = 0;
  double vector_us = 0;
  double lds_us = 0;
  double memory_path_us = 0;
  double l2_us = 0;
  double memory_us = 0;
  /// The largest: all but the dispatch overlap.
  double execution_us() const;
  double total_us() const { return dispatch_us + execution_us(); }
  /// The name of the largest: "latency", "VALU", "LDS", "memory path", "L2", "memory".
  std::string bound() const;
};

/// `counters` must come from one launch with profiling; without an L2 (Counters::memory_lines_read
/// and written are zero) every line touched counts as memory traffic. `resident`: workgroups a CU
/// holds at once.
ModelledTime modelled_time(const Counters& counters, int resident, const CardModel& card = {});

}  // namespace gdn::gfx906
