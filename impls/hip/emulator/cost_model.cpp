#include "hip/emulator/cost_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "hip/emulator/l2_cache.h"

namespace gdn::gfx906 {
namespace {

/// Waits until at most `allowed` accesses of the queue are outstanding. They return in order.
void wait_for(Wave& wave, std::vector<std::uint64_t>& queue, std::size_t allowed) {
  if (queue.size() <= allowed) return;
  const auto done = queue.begin() + static_cast<std::ptrdiff_t>(queue.size() - allowed);
  wave.cycle = std::max(wave.cycle, *std::max_element(queue.begin(), done));
  queue.erase(queue.begin(), done);
}

/// When a result is there that occupies a unit for `cycles`, behind what the wave asked before.
std::uint64_t served(std::uint64_t now, std::uint64_t& free, std::uint64_t cycles, int latency) {
  free = std::max(now, free) + cycles;
  return free + static_cast<std::uint64_t>(latency);
}

std::array<std::pair<const char*, double>, 6> parts(const ModelledTime& time) {
  return {{{"latency", time.latency_us},
           {"VALU", time.vector_us},
           {"LDS", time.lds_us},
           {"memory path", time.memory_path_us},
           {"L2", time.l2_us},
           {"memory", time.memory_us}}};
}

}  // namespace

int issue_cycles(Unit unit) {
  switch (unit) {
    case Unit::vector_half:
      return 8;
    case Unit::vector_quarter:
      return 16;
    default:
      return 4;
  }
}

int issue_cycles(const Instruction& instruction) {
  const int cycles = issue_cycles(instruction.unit);
  if (instruction.unit != Unit::branch || !instruction.text.starts_with("s_nop")) return cycles;
  return cycles * (1 + std::atoi(instruction.text.c_str() + 5));
}

void advance_timeline(Wave& wave, const Instruction& instruction, const AccessCost& cost,
                      const CardModel& card) {
  wait_for(wave, wave.vector_memory_done, instruction.wait_vm);
  wait_for(wave, wave.lds_done, instruction.wait_lgkm);
  const auto issue = static_cast<std::uint64_t>(issue_cycles(instruction));
  wave.cycle += issue;
  switch (instruction.unit) {
    case Unit::vector:
    case Unit::vector_half:
    case Unit::vector_quarter:
      wave.vector_cycles += issue;
      break;
    case Unit::lds:
    case Unit::cross_lane: {
      const auto own = static_cast<std::uint64_t>(
          std::ceil(static_cast<double>(cost.lds_bytes) / card.lds_bytes_per_cycle_of_a_wave));
      wave.lds_done.push_back(
          served(wave.cycle, wave.lds_free, std::max(cost.lds_cycles, own), card.lds_latency));
      break;
    }
    case Unit::scalar_memory:
      wave.lds_done.push_back(wave.cycle + static_cast<std::uint64_t>(card.scalar_latency));
      break;
    case Unit::global:
    case Unit::scratch:
      wave.vector_memory_done.push_back(
          served(wave.cycle, wave.memory_free, cost.memory_path_cycles, card.global_latency));
      break;
    default:
      break;
  }
}

int resident_workgroups(const Kernel& kernel, std::uint32_t dynamic_lds_bytes,
                        std::uint64_t threads_per_workgroup, const CardModel& card) {
  KernelResources resources;
  resources.vgprs = kernel.vgprs;
  resources.lds_bytes = static_cast<int>(kernel.lds_bytes);
  resources.max_workgroup = static_cast<int>(threads_per_workgroup);
  const int waves = static_cast<int>((threads_per_workgroup + kLanes - 1) / kLanes);
  const int slots =
      resources.waves_per_simd(static_cast<int>(dynamic_lds_bytes)) * card.simds_per_unit;
  return std::max(1, slots / std::max(1, waves));
}

double ModelledTime::execution_us() const {
  double largest = 0;
  for (const auto& [name, time_us] : parts(*this)) largest = std::max(largest, time_us);
  return largest;
}

std::string ModelledTime::bound() const {
  const auto all = parts(*this);
  return std::max_element(all.begin(), all.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

ModelledTime modelled_time(const Counters& counters, int resident, const CardModel& card) {
  ModelledTime time;
  time.dispatch_us = card.dispatch_us;
  if (counters.workgroups == 0) return time;
  const auto groups = static_cast<double>(counters.workgroups);
  const double groups_per_unit = std::ceil(groups / card.compute_units);
  const double share = groups_per_unit / groups;  // of all work, on the busiest CU
  const auto cycles_us = [&](double cycles) { return cycles / card.clock_mhz; };
  time.latency_us = cycles_us(std::ceil(groups_per_unit / resident) *
                              static_cast<double>(counters.path_cycles) / groups);
  time.vector_us =
      cycles_us(static_cast<double>(counters.vector_cycles) / card.simds_per_unit * share);
  time.lds_us = cycles_us(static_cast<double>(counters.lds_cycles) * share);
  time.memory_path_us = cycles_us(static_cast<double>(counters.memory_path_cycles) * share);

  const auto line_bytes = static_cast<double>(kCacheLineBytes);
  const double touched = static_cast<double>(counters.global_lines) * line_bytes;
  time.l2_us = cycles_us(touched / card.l2_bytes_per_cycle);
  const bool with_l2 =
      counters.l2_hits + counters.memory_lines_read + counters.memory_lines_written > 0;
  const double bytes_per_us = 1e6;  // of 1 TB/s
  time.memory_us =
      with_l2 ? line_bytes *
                    (static_cast<double>(counters.memory_lines_read) / card.read_tb_per_s +
                     static_cast<double>(counters.memory_lines_written) / card.write_tb_per_s()) /
                    bytes_per_us
              : touched / card.copy_tb_per_s / bytes_per_us;
  return time;
}

}  // namespace gdn::gfx906
