// One backend, two devices: a plan launches kernels by name through a KernelLauncher, which is the
// real card ("hip", through the HIP runtime's module API) or the emulator ("gfx906-emulator").
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "interface/implementation.h"

namespace gdn::hip {

/// Workgroups of a grid, or work-items of a workgroup.
struct Extent {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
};

class KernelLauncher {
 public:
  virtual ~KernelLauncher() = default;
  /// Enqueues the kernel on the device's stream. `arguments` is the kernel's argument block: here
  /// always one structure passed by value.
  virtual void launch(const std::string& kernel, Extent grid, Extent block, const void* arguments,
                      std::size_t argument_bytes) = 0;
};

/// Launchers are known by their device's native stream, so that a Device wrapped by another finds
/// its own. Throws Error(bad_input) for a device of another backend.
KernelLauncher& launcher_of(const Device& device);
void register_launcher(void* native_stream, KernelLauncher* launcher);
void unregister_launcher(void* native_stream);

/// The Plan of every HIP implementation: its workspaces and what enqueues its kernels, a function for each
/// phase of the operation.
class LaunchPlan final : public Plan {
 public:
  using Enqueue = std::function<void(KernelLauncher&)>;
  /// `info.workspace_bytes` is set from the workspaces, which are filled with NaN once, here.
  LaunchPlan(Device& device, PlanInfo info, std::vector<DeviceBuffer> workspaces, Enqueue enqueue)
      : LaunchPlan(device, std::move(info), std::move(workspaces),
                   std::vector<Enqueue>{std::move(enqueue)}) {}
  LaunchPlan(Device& device, PlanInfo info, std::vector<DeviceBuffer> workspaces,
             std::vector<Enqueue> phases);
  const PlanInfo& info() const override { return info_; }
  void run() override {
    for (const Enqueue& phase : phases_) phase(launcher_);
  }
  void run_phase(int phase) override {
    if (phases_.size() == 1) return Plan::run_phase(phase);
    phases_.at(static_cast<std::size_t>(phase))(launcher_);
  }

 private:
  KernelLauncher& launcher_;
  PlanInfo info_;
  std::vector<DeviceBuffer> workspaces_;
  std::vector<Enqueue> phases_;
};

/// Throws Error(unsupported) unless the implementation does the problem and runs on the device.
void require_runnable(const Implementation& implementation, const Problem& problem,
                      const Device& device);

}  // namespace gdn::hip
