// A Device that leaves memory, stream and time to another and says it is of the backend "hip": what
// runs the HIP implementations where there is neither a card nor its emulator.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "hip/kernel_launcher.h"
#include "interface/forwarding_device.h"

namespace gdn::hip {

class DeviceAsHip : public ForwardingDevice, public KernelLauncher {
 public:
  DeviceAsHip(std::unique_ptr<Device> to, const std::string& suffix)
      : ForwardingDevice(*to), to_(std::move(to)), info_(to_->info()) {
    info_.backend = info_.runs = "hip";
    info_.name += suffix;
  }

  const DeviceInfo& info() const override { return info_; }

 private:
  std::unique_ptr<Device> to_;
  DeviceInfo info_;
};

}  // namespace gdn::hip
