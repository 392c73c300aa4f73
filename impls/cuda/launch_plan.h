// The Plan of every CUDA implementation: its workspaces and what enqueues its kernels, a function for each
// phase of the operation. And the phase of several plans by one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "cuda/check.h"
#include "cuda/cuda_device.h"
#include "cuda/grid_blocks.h"
#include "cuda/target.h"
#include "interface/implementation.h"
#include "interface/phase_group.h"

namespace gdn::GDN_CUDA_TARGET {

class LaunchPlan : public Plan {
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

/// A phase of several plans by one launch.
class LaunchGroup final : public PhaseGroup {
 public:
  /// `calls`: what the kernel reads of each plan, on the device.
  LaunchGroup(const Device& device, DeviceBuffer calls, LaunchPlan::Enqueue enqueue)
      : device_index_(device_index(device)),
        stream_(static_cast<cudaStream_t>(device.native_stream())),
        calls_(std::move(calls)),
        enqueue_(std::move(enqueue)),
        info_{.launches = 1, .workspace_bytes = calls_.bytes()} {}

  const Info& info() const override { return info_; }
  void run() override {
    GDN_CUDA_CHECK(cudaSetDevice(device_index_));
    enqueue_(stream_);
    GDN_CUDA_CHECK(cudaGetLastError());
  }

 private:
  int device_index_;
  cudaStream_t stream_;
  DeviceBuffer calls_;
  LaunchPlan::Enqueue enqueue_;
  Info info_;
};

/// These calls in device memory, for a LaunchGroup: written before what is enqueued from then on.
template <typename Call>
DeviceBuffer on_device(const std::vector<Call>& calls, Device& device) {
  const auto bytes = static_cast<std::int64_t>(calls.size() * sizeof(Call));
  DeviceBuffer buffer = device.allocate(bytes);
  device.upload(buffer.data(), calls.data(), bytes);
  return buffer;
}

/// Throws Error(unsupported) unless the implementation does the problem and runs on the device.
inline void require_runnable(const Implementation& implementation, const Problem& problem,
                             const Device& device) {
  require_supported(implementation, problem);
  const Support support = runs_on(implementation, device.info());
  if (!support) throw Error(ErrorKind::unsupported, support.reason);
}

}  // namespace gdn::GDN_CUDA_TARGET
