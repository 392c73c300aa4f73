// A modelled time for an MI50 (60 CUs at 1725 MHz), from what the emulator counted. Never a
// measurement: no MI50 has run this code.
//
// A wave alone: every instruction issues for the cycles of its unit (VALU 4, float64 8,
// transcendental and 32-bit integer products 16, everything else 4; a wave on an otherwise empty
// SIMD issues no two instructions at once). Memory results arrive after a latency, waited for where
// the code says s_waitcnt; barriers wait for the workgroup's slowest wave. The longest wave gives
// the workgroup's path. A CU: holds as many workgroups as registers, LDS and 10 waves a SIMD allow.
// Its time is the larger of
//   - latency: rounds of resident workgroups times the path,
//   - throughput: VALU cycles over 4 SIMDs, LDS cycles over the CU's one LDS.
// The card: workgroups spread evenly over the CUs; then the larger of that and the bytes of the
// cache lines touched over the memory rate; plus the dispatch of each kernel.
//
// Assumptions, with the published figure where there is one: memory 0.713 TB/s for a copy of the
// nominal 1.024 (measured by others on MI50/Radeon VII); dispatch 4 us; latencies 64 (LDS), 200
// (scalar), 500 (global) cycles. Not modelled: L2 hits (every line counts as memory traffic, so
// kernels that reread are modelled too slow), instruction fetch, clock changes, contention for
// issue between waves of a SIMD.
#pragma once

#include <cstdint>

#include "hip/emulator/code_object.h"
#include "hip/emulator/counters.h"
#include "hip/emulator/wave.h"

namespace gdn::gfx906 {

struct CardModel {
  int compute_units = 60;
  int simds_per_unit = 4;
  double clock_mhz = 1725;
  double memory_tb_per_s = 0.713;
  double dispatch_us = 4;
  int lds_latency = 64;  ///< cycles
  int scalar_latency = 200;
  int global_latency = 500;
};

/// Cycles an instruction of this unit occupies its wave's issue slot.
int issue_cycles(Unit unit);

/// Advances the wave's timeline past one instruction.
void advance_timeline(Wave& wave, const Instruction& instruction, const CardModel& card);

/// Modelled device time of one launch. `counters` must come from a launch with profiling.
double modelled_time_us(const Counters& counters, const Kernel& kernel,
                        std::uint32_t dynamic_lds_bytes, std::uint64_t threads_per_workgroup,
                        const CardModel& card = {});

}  // namespace gdn::gfx906
