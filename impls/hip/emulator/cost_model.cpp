#include "hip/emulator/cost_model.h"

#include <algorithm>
#include <cmath>

namespace gdn::gfx906 {
namespace {

/// Waits until at most `allowed` accesses of the queue are outstanding. They return in order.
void wait_for(Wave& wave, std::vector<std::uint64_t>& queue, std::size_t allowed) {
  if (queue.size() <= allowed) return;
  const auto done = queue.begin() + static_cast<std::ptrdiff_t>(queue.size() - allowed);
  wave.cycle = std::max(wave.cycle, *std::max_element(queue.begin(), done));
  queue.erase(queue.begin(), done);
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

void advance_timeline(Wave& wave, const Instruction& instruction, const CardModel& card) {
  wait_for(wave, wave.vector_memory_done, instruction.wait_vm);
  wait_for(wave, wave.lds_done, instruction.wait_lgkm);
  wave.cycle += static_cast<std::uint64_t>(issue_cycles(instruction.unit));
  const auto after = [&](int latency) { return wave.cycle + static_cast<std::uint64_t>(latency); };
  switch (instruction.unit) {
    case Unit::lds:
    case Unit::cross_lane:
      wave.lds_done.push_back(after(card.lds_latency));
      break;
    case Unit::scalar_memory:
      wave.lds_done.push_back(after(card.scalar_latency));
      break;
    case Unit::global:
    case Unit::scratch:
      wave.vector_memory_done.push_back(after(card.global_latency));
      break;
    default:
      break;
  }
}

double modelled_time_us(const Counters& counters, const Kernel& kernel,
                        std::uint32_t dynamic_lds_bytes, std::uint64_t threads_per_workgroup,
                        const CardModel& card) {
  if (counters.workgroups == 0) return card.dispatch_us;
  KernelResources resources;
  resources.vgprs = kernel.vgprs;
  resources.lds_bytes = static_cast<int>(kernel.lds_bytes);
  resources.max_workgroup = static_cast<int>(threads_per_workgroup);
  const double waves_per_group = std::ceil(static_cast<double>(threads_per_workgroup) / 64.0);
  const double resident =
      std::max(1.0, std::floor(resources.waves_per_simd(static_cast<int>(dynamic_lds_bytes)) *
                               card.simds_per_unit / waves_per_group));
  const auto groups = static_cast<double>(counters.workgroups);
  const double groups_per_unit = std::ceil(groups / card.compute_units);
  const double share = groups_per_unit / groups;  // of all work, on the busiest CU
  const double latency =
      std::ceil(groups_per_unit / resident) * static_cast<double>(counters.path_cycles) / groups;
  const double vector = static_cast<double>(counters.vector_cycles) / card.simds_per_unit * share;
  const double lds = static_cast<double>(counters.lds_cycles) * share;
  const double cycles = std::max({latency, vector, lds});
  const double memory_us =
      static_cast<double>(counters.global_lines) * 64.0 / (card.memory_tb_per_s * 1e6);
  return card.dispatch_us + std::max(cycles / card.clock_mhz, memory_us);
}

}  // namespace gdn::gfx906
