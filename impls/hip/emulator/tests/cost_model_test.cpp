// The cost model by hand-counted cases: a wave's timeline, a workgroup's intervals, the card, the
// L2.
#include "hip/emulator/cost_model.h"

#include <algorithm>
#include <random>
#include <vector>

#include "hip/emulator/l2_cache.h"
#include "wave_fixture.h"

namespace gdn::gfx906 {
namespace {

/// Runs a listing through the timeline alone; costs as a conflict-free access of all lanes has
/// them.
std::uint64_t cycles_of(const std::string& listing, const CardModel& card = {}) {
  const auto wave = std::make_unique<Wave>();
  clear(*wave);
  for (const Instruction& instruction : decode_listing(listing)) {
    AccessCost cost;
    if (instruction.unit == Unit::lds) {
      cost.lds_bytes = static_cast<std::uint64_t>(instruction.memory.size()) * kLanes;
      cost.lds_cycles = cost.lds_bytes / 128;
    }
    if (instruction.unit == Unit::global) cost.memory_path_cycles = 4;
    advance_timeline(*wave, instruction, cost, card);
  }
  return wave->cycle;
}

TEST(CostModelWave, UnitsIssueAtTheirRates) {
  EXPECT_EQ(cycles_of("v_fma_f32 v0, v1, v2, v3"), 4u);
  EXPECT_EQ(cycles_of("v_pk_fma_f16 v0, v1, v2, v3"), 4u);
  EXPECT_EQ(cycles_of("v_dot2_f32_f16 v0, v1, v2, v3"), 4u);
  EXPECT_EQ(cycles_of("v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]"), 8u);
  EXPECT_EQ(cycles_of("v_exp_f32_e32 v0, v1"), 16u);
  EXPECT_EQ(cycles_of("v_mul_lo_u32 v0, v1, v2"), 16u);
  EXPECT_EQ(cycles_of("s_nop 0"), 4u);
  EXPECT_EQ(cycles_of("s_nop 3"), 16u);
}

TEST(CostModelWave, WaitsForWhatSWaitcntNamesAndNoMore) {
  const CardModel card;
  const auto latency = static_cast<std::uint64_t>(card.global_latency);
  // Issue 4, the path 4, the latency, then the wait's and the addition's issue.
  EXPECT_EQ(
      cycles_of("global_load_dword v0, v[2:3], off\ns_waitcnt vmcnt(0)\nv_add_f32 v1, v0, v0"),
      4 + 4 + latency + 4 + 4);
  // The second of two is behind the first on the path, and not waited for.
  EXPECT_EQ(cycles_of("global_load_dword v0, v[2:3], off\nglobal_load_dword v1, v[2:3], off\n"
                      "s_waitcnt vmcnt(1)"),
            4 + 4 + latency + 4);
  EXPECT_EQ(cycles_of("global_load_dword v0, v[2:3], off\nglobal_load_dword v1, v[2:3], off\n"
                      "s_waitcnt vmcnt(0)"),
            4 + 4 + 4 + latency + 4);
  // Without a wait nothing is waited for: a dependent chain of loads costs what its waits cost.
  EXPECT_EQ(cycles_of("global_load_dword v0, v[2:3], off\nv_add_f32 v1, v2, v2"), 8u);
}

TEST(CostModelWave, OneWaveDrawsHalfTheLdsRate) {
  const auto latency = static_cast<std::uint64_t>(CardModel{}.lds_latency);
  // 256 bytes at 64 a cycle; 1024 bytes at 64 a cycle.
  EXPECT_EQ(cycles_of("ds_read_b32 v0, v1\ns_waitcnt lgkmcnt(0)"), 4 + 4 + latency + 4);
  EXPECT_EQ(cycles_of("ds_read_b128 v[0:3], v4\ns_waitcnt lgkmcnt(0)"), 4 + 16 + latency + 4);
}

Kernel kernel_with(int vgprs, std::uint32_t lds_bytes) {
  Kernel kernel;
  kernel.vgprs = vgprs;
  kernel.lds_bytes = lds_bytes;
  return kernel;
}

TEST(CostModelCard, ResidencyIsWhatRegistersLdsAndSlotsAllow) {
  EXPECT_EQ(resident_workgroups(kernel_with(24, 0), 0, 256), 10);
  EXPECT_EQ(resident_workgroups(kernel_with(128, 0), 0, 256), 2);
  EXPECT_EQ(resident_workgroups(kernel_with(24, 32768), 0, 256), 2);
  EXPECT_EQ(resident_workgroups(kernel_with(24, 0), 60 * 1024, 256), 1);
  EXPECT_EQ(resident_workgroups(kernel_with(256, 65536), 0, 1024), 1);
}

/// One launch's counters of `groups` equal workgroups.
Counters counters_of(std::uint64_t groups, std::uint64_t path, std::uint64_t vector,
                     std::uint64_t lds) {
  Counters counters;
  counters.workgroups = groups;
  counters.path_cycles = groups * path;
  counters.vector_cycles = groups * vector;
  counters.lds_cycles = groups * lds;
  return counters;
}

TEST(CostModelCard, TheBusiestComputeUnitDecides) {
  const CardModel card;
  const auto time_of = [&](const Counters& counters) { return modelled_time(counters, 1, card); };
  const double cycle_us = 1 / card.clock_mhz;
  // 60 workgroups are one round, 61 are two.
  EXPECT_DOUBLE_EQ(time_of(counters_of(60, 1000, 0, 0)).latency_us, 1000 * cycle_us);
  EXPECT_DOUBLE_EQ(time_of(counters_of(61, 1000, 0, 0)).latency_us, 2000 * cycle_us);
  EXPECT_DOUBLE_EQ(time_of(counters_of(32, 1000, 4000, 0)).vector_us, 1000 * cycle_us);
  EXPECT_EQ(time_of(counters_of(32, 999, 4000, 0)).bound(), "VALU");
  EXPECT_EQ(time_of(counters_of(32, 999, 3000, 1000)).bound(), "LDS");
  EXPECT_DOUBLE_EQ(time_of(counters_of(32, 999, 3000, 1000)).total_us(),
                   card.dispatch_us + 1000 * cycle_us);
}

TEST(CostModelCard, MemoryTimeIsThatOfTheLinesTheL2DidNotHold) {
  const CardModel card;
  Counters counters = counters_of(60, 0, 0, 0);
  const std::uint64_t lines = 1 << 20;
  counters.global_lines = 2 * lines;
  counters.memory_lines_read = counters.memory_lines_written = lines;
  const ModelledTime copy = modelled_time(counters, 2, card);
  const double copied_bytes = 2.0 * static_cast<double>(lines) * 64;
  EXPECT_NEAR(copied_bytes / copy.memory_us / 1e6, card.copy_tb_per_s, 1e-9);
  counters.global_lines = lines;
  counters.memory_lines_written = 0;
  const ModelledTime read = modelled_time(counters, 2, card);
  EXPECT_NEAR(copied_bytes / 2 / read.memory_us / 1e6, card.read_tb_per_s, 1e-9);
  EXPECT_EQ(read.bound(), "memory");
}

TEST(CostModelL2, KeepsTheLinesUsedLastAndWritesBackTheDirty) {
  L2Cache cache(2);
  cache.access(1, false);
  cache.access(2, true);
  cache.access(1, false);  // hit: 2 is the oldest now
  cache.access(3, false);  // pushes 2 out
  const L2Cache::Traffic traffic = cache.take_traffic();
  EXPECT_EQ(traffic.hits, 1u);
  EXPECT_EQ(traffic.lines_read, 2u);
  EXPECT_EQ(traffic.lines_written, 1u);
  cache.access(1, true);
  cache.access(2, false);  // pushes 3 out, which is clean
  EXPECT_EQ(cache.take_traffic().lines_written, 0u);
  cache.flush();
  EXPECT_EQ(cache.take_traffic().lines_written, 1u);
  cache.access(1, false);
  EXPECT_EQ(cache.take_traffic().hits, 0u);
}

TEST(CostModelL2, CountsWhatAListOfTheLinesInItsOrderCounts) {
  struct Line {
    std::uint64_t line;
    bool dirty;
  };
  for (unsigned int seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const std::uint64_t capacity = 1 + seed % 7;
    L2Cache cache(capacity);
    std::vector<Line> lines;  // the one used last at the end
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t line = random() % 10;
      const bool write = random() % 3 == 0;
      L2Cache::Traffic wanted;
      if (random() % 50 == 0) {
        for (const Line& one : lines) wanted.lines_written += one.dirty ? 1 : 0;
        lines.clear();
        cache.flush();
      }
      const auto found = std::find_if(lines.begin(), lines.end(),
                                      [&](const Line& one) { return one.line == line; });
      Line used{line, write};
      if (found != lines.end()) {
        ++wanted.hits;
        used.dirty |= found->dirty;
        lines.erase(found);
      } else {
        wanted.lines_read += write ? 0 : 1;
        if (lines.size() == capacity) {
          wanted.lines_written += lines.front().dirty ? 1 : 0;
          lines.erase(lines.begin());
        }
      }
      lines.push_back(used);
      cache.access(line, write);
      const L2Cache::Traffic counted = cache.take_traffic();
      ASSERT_EQ(counted.hits, wanted.hits) << "seed " << seed << ", step " << step;
      ASSERT_EQ(counted.lines_read, wanted.lines_read) << "seed " << seed << ", step " << step;
      ASSERT_EQ(counted.lines_written, wanted.lines_written)
          << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace gdn::gfx906
