#include "hip/emulator/modelled_card.h"

#include <algorithm>

namespace gdn::gfx906 {

ModelledCard::ModelledCard(const CardModel& card)
    : card_(card), l2_(static_cast<std::uint64_t>(card.l2_bytes) / kCacheLineBytes) {}

LaunchResult ModelledCard::launch(const CodeObject& code, const std::string& kernel, Extent grid,
                                  Extent block, std::string_view arguments,
                                  std::uint32_t dynamic_lds_bytes,
                                  const std::vector<MemoryRange>& global, LaunchOptions options) {
  options.profile = true;
  options.trace_lines = true;
  LaunchResult result =
      gfx906::launch(code, kernel, grid, block, arguments, dynamic_lds_bytes, global, options);
  const Kernel& compiled = code.find(kernel);
  const int resident = resident_workgroups(compiled, dynamic_lds_bytes, block.count(), card_);
  replay(result.workgroups, resident * card_.compute_units, result.counters);
  launches_.push_back({kernel, grid, block, resident, result.counters,
                       modelled_time(result.counters, resident, card_)});
  result.workgroups.clear();
  return result;
}

void ModelledCard::replay(const std::vector<WorkgroupTrace>& workgroups, int concurrent,
                          Counters& counters) {
  std::vector<std::uint64_t> slot_free(static_cast<std::size_t>(concurrent), 0);
  std::vector<LineAccess> order;
  for (std::size_t group = 0; group < workgroups.size(); ++group) {
    std::uint64_t& start = slot_free[group % slot_free.size()];
    for (const LineAccess& access : workgroups[group].lines) {
      order.push_back({start + access.cycle, access.line});
    }
    start += workgroups[group].path_cycles;
  }
  // Stable: accesses of one cycle stay in the order of the workgroups.
  std::stable_sort(order.begin(), order.end(),
                   [](const LineAccess& a, const LineAccess& b) { return a.cycle < b.cycle; });
  for (const LineAccess& access : order) l2_.access(access.line / 2, (access.line & 1) != 0);
  const L2Cache::Traffic traffic = l2_.take_traffic();
  counters.l2_hits = traffic.hits;
  counters.memory_lines_read = traffic.lines_read;
  counters.memory_lines_written = traffic.lines_written;
}

void ModelledCard::transfer(std::int64_t bytes_read, std::int64_t bytes_written) {
  transfer_us_ += card_.dispatch_us +
                  static_cast<double>(bytes_read) / (card_.read_tb_per_s * 1e6) +
                  static_cast<double>(bytes_written) / (card_.write_tb_per_s() * 1e6);
}

double ModelledCard::total_us() {
  l2_.flush();
  lines_left_dirty_ += l2_.take_traffic().lines_written;
  double total = transfer_us_ + static_cast<double>(lines_left_dirty_ * kCacheLineBytes) /
                                    (card_.write_tb_per_s() * 1e6);
  for (const ModelledLaunch& launch : launches_) total += launch.time.total_us();
  return total;
}

void ModelledCard::clear() {
  l2_.flush();
  (void)l2_.take_traffic();
  launches_.clear();
  transfer_us_ = 0;
  lines_left_dirty_ = 0;
}

Counters total_counters(const std::vector<ModelledLaunch>& launches) {
  Counters sum;
  for (const ModelledLaunch& launch : launches) sum.add(launch.counters);
  return sum;
}

}  // namespace gdn::gfx906
