// The Plan of every CUDA implementation: its workspaces and a function that enqueues its kernels.
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
      : device_index_(device_index(device)),
        stream_(static_cast<cudaStream_t>(device.native_stream())),
        info_(std::move(info)),
        workspaces_(std::move(workspaces)),
        enqueue_(std::move(enqueue)) {
    info_.workspace_bytes = 0;
    for (const DeviceBuffer& workspace : workspaces_) {
      info_.workspace_bytes += workspace.bytes();
      device.fill_async(workspace.data(), 0xff, workspace.bytes());
    }
  }

  const PlanInfo& info() const override { return info_; }

  void run() override {
    GDN_CUDA_CHECK(cudaSetDevice(device_index_));
    enqueue_(stream_);
    GDN_CUDA_CHECK(cudaGetLastError());
  }

 private:
  int device_index_;
  cudaStream_t stream_;
  PlanInfo info_;
  std::vector<DeviceBuffer> workspaces_;
  Enqueue enqueue_;
};

/// Throws Error(unsupported) unless the implementation does the problem and runs on the device.
inline void require_runnable(const Implementation& implementation, const Problem& problem,
                             const Device& device) {
  require_supported(implementation, problem);
  const Support support = runs_on(implementation, device.info());
  if (!support) throw Error(ErrorKind::unsupported, support.reason);
}

}  // namespace gdn::GDN_CUDA_TARGET
