// The Plan of every CUDA implementation: its workspaces and what enqueues its kernels, a function for each
// phase of the operation.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <utility>
#include <vector>

#include "cuda/check.h"
#include "cuda/cuda_device.h"
#include "cuda/grid_blocks.h"
#include "cuda/target.h"
#include "interface/implementation.h"

namespace gdn::GDN_CUDA_TARGET {

class LaunchPlan final : public Plan {
 public:
  using Enqueue = std::function<void(cudaStream_t)>;

  /// `info.workspace_bytes` is set from the workspaces, which are filled with NaN once, here: a
  /// kernel that reads what it never wrote shows.
  LaunchPlan(Device& device, PlanInfo info, std::vector<DeviceBuffer> workspaces, Enqueue enqueue)
      : LaunchPlan(device, std::move(info), std::move(workspaces),
                   std::vector<Enqueue>{std::move(enqueue)}) {}
  LaunchPlan(Device& device, PlanInfo info, std::vector<DeviceBuffer> workspaces,
             std::vector<Enqueue> phases)
      : device_index_(device_index(device)),
        stream_(static_cast<cudaStream_t>(device.native_stream())),
        info_(std::move(info)),
        workspaces_(std::move(workspaces)),
        phases_(std::move(phases)) {
    info_.workspace_bytes = 0;
    for (const DeviceBuffer& workspace : workspaces_) {
      info_.workspace_bytes += workspace.bytes();
      device.fill_async(workspace.data(), 0xff, workspace.bytes());
    }
  }

  const PlanInfo& info() const override { return info_; }

  void run() override {
    for (const Enqueue& phase : phases_) enqueue(phase);
  }
  void run_phase(int phase) override {
    if (phases_.size() == 1) return Plan::run_phase(phase);
    enqueue(phases_.at(static_cast<std::size_t>(phase)));
  }

 private:
  void enqueue(const Enqueue& phase) {
    GDN_CUDA_CHECK(cudaSetDevice(device_index_));
    phase(stream_);
    GDN_CUDA_CHECK(cudaGetLastError());
  }

  int device_index_;
  cudaStream_t stream_;
  PlanInfo info_;
  std::vector<DeviceBuffer> workspaces_;
  std::vector<Enqueue> phases_;
};

/// Throws Error(unsupported) unless the implementation does the problem and runs on the device.
inline void require_runnable(const Implementation& implementation, const Problem& problem,
                             const Device& device) {
  require_supported(implementation, problem);
  const Support support = runs_on(implementation, device.info());
  if (!support) throw Error(ErrorKind::unsupported, support.reason);
}

}  // namespace gdn::GDN_CUDA_TARGET
