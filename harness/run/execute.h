// Runs an implementation on a case, on a device, the way every verified run is made: inputs
// uploaded, outputs and workspaces filled with NaN beforehand, guard bands around every buffer
// checked after.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "harness/run/device_case.h"
#include "harness/run/guarded_device.h"
#include "harness/run/memory_needed.h"
#include "interface/implementation.h"
#include "interface/phase_group.h"

namespace gdn {

/// One plan over one case's buffers, with guarded workspaces, run as often as wanted: what a server
/// does with a plan.
class PlannedCase {
 public:
  /// Throws what require_device_memory and Implementation::plan throw.
  PlannedCase(const Implementation& implementation, const Case& inputs, Device& device,
              const DeviceCaseOptions& options = {});

  const PlanInfo& info() const { return plan_->info(); }
  /// As DeviceCase::refill: the plan is not told.
  void refill(const Case& other) { on_device_->refill(other); }
  /// From now on run() replays a graph captured here. False where the device has no graphs.
  bool capture();
  /// Refilled, the same phase by phase, each on what it reads alone: everything else that goes in is
  /// hidden from it, be it that only later ones read it or only earlier ones (DeviceCase::hide). After
  /// each, what only later ones write must be as it was. Throws Error(device_failure) naming phase and
  /// operand. Inputs stay hidden afterwards: refill().
  Outputs run_in_phases(const Case& inputs, HiddenIndices indices = HiddenIndices::below);
  /// One run on NaN-filled outputs and restored states; guards and inputs checked; downloaded.
  Outputs run(CheckInputs inputs = CheckInputs::now);

 private:
  friend class PlannedTogether;

  Problem problem_;
  Device& device_;
  GuardedDevice guarded_;
  std::unique_ptr<DeviceCase> on_device_;
  std::unique_ptr<Plan> plan_;
  std::function<void()> replay_;
};

/// Several cases of one implementation and device, phase by phase, each phase of all of them together
/// (group_phase). It outlives none of them.
class PlannedTogether {
 public:
  /// Throws what group_phase() does.
  PlannedTogether(const Implementation& implementation, std::vector<PlannedCase*> cases);

  const PhaseGroup::Info& info(int phase) const { return groups_.at(phase)->info(); }
  /// As PlannedCase::capture.
  bool capture();
  /// As PlannedCase::run, of every case.
  std::vector<Outputs> run();

 private:
  void enqueue_only(std::size_t guards_of);

  std::vector<PlannedCase*> cases_;
  std::vector<std::unique_ptr<PhaseGroup>> groups_;
  std::function<void()> replay_;
};

/// Plan, run once on NaN-filled outputs and workspaces, check guards, download. What the planner
/// chose goes to `plan_info` if given.
Outputs execute(const Implementation& implementation, const Case& inputs, Device& device,
                PlanInfo* plan_info = nullptr);

}  // namespace gdn
