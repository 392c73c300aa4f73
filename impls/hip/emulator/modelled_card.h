// The emulated card as the cost model sees it over several launches: what one kernel leaves in the
// L2, the next one finds there. Keeps a record of every launch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hip/emulator/cost_model.h"
#include "hip/emulator/emulator.h"
#include "hip/emulator/l2_cache.h"

namespace gdn::gfx906 {

/// One launch: what it executed, what it moved and the modelled time.
struct ModelledLaunch {
  std::string kernel;
  Extent grid;
  Extent block;
  int resident_workgroups = 0;  ///< a CU holds so many at once
  Counters counters;
  ModelledTime time;
};

class ModelledCard {
 public:
  explicit ModelledCard(const CardModel& card = {});
  const CardModel& model() const { return card_; }

  /// As gfx906::launch, with profiling; recorded. The L2 sees the workgroups' accesses in the order
  /// of the model's schedule: each CU runs its resident workgroups side by side, the next one
  /// starting where one ends, each along its own timeline.
  LaunchResult launch(const CodeObject& code, const std::string& kernel, Extent grid, Extent block,
                      std::string_view arguments, std::uint32_t dynamic_lds_bytes,
                      const std::vector<MemoryRange>& global, LaunchOptions options);
  /// Bytes read and written by a copy engine, past the L2.
  void transfer(std::int64_t bytes_read, std::int64_t bytes_written);

  const std::vector<ModelledLaunch>& launches() const { return launches_; }
  /// Of all launches and transfers since the last clear(), what is still dirty in the L2 written
  /// back.
  double total_us();
  /// Forgets the launches and empties the L2.
  void clear();

 private:
  void replay(const std::vector<WorkgroupTrace>& workgroups, int concurrent, Counters& counters);

  CardModel card_;
  L2Cache l2_;
  std::vector<ModelledLaunch> launches_;
  double transfer_us_ = 0;
  std::uint64_t lines_left_dirty_ = 0;
};

/// Sums of the launches' counters.
Counters total_counters(const std::vector<ModelledLaunch>& launches);

}  // namespace gdn::gfx906
