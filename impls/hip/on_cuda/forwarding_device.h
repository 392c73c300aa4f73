// A Device that leaves memory, stream and time to another and says it is of the backend "hip": what
// runs the HIP implementations where there is neither a card nor its emulator.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "hip/kernel_launcher.h"
#include "interface/device.h"

namespace gdn::hip {

class ForwardingDevice : public Device, public KernelLauncher {
 public:
  ForwardingDevice(std::unique_ptr<Device> to, const std::string& suffix)
      : to_(std::move(to)), info_(to_->info()) {
    info_.backend = "hip";
    info_.name += suffix;
  }

  const DeviceInfo& info() const override { return info_; }
  DeviceBuffer allocate(std::int64_t bytes) override { return to_->allocate(bytes); }
  std::int64_t free_memory_bytes() const override { return to_->free_memory_bytes(); }
  void upload(void* destination, const void* source, std::int64_t bytes) override {
    to_->upload(destination, source, bytes);
  }
  void download(void* destination, const void* source, std::int64_t bytes) override {
    to_->download(destination, source, bytes);
  }
  void copy_async(void* destination, const void* source, std::int64_t bytes) override {
    to_->copy_async(destination, source, bytes);
  }
  void fill_async(void* destination, unsigned char byte, std::int64_t bytes) override {
    to_->fill_async(destination, byte, bytes);
  }
  void synchronize() override { to_->synchronize(); }
  void flush_cache_async() override { to_->flush_cache_async(); }
  TimeSample time_launch(const std::function<void()>& prepare,
                         const std::function<void()>& launch) override {
    return to_->time_launch(prepare, launch);
  }
  std::function<void()> capture(const std::function<void()>& launch) override {
    return to_->capture(launch);
  }
  void* native_stream() const override { return to_->native_stream(); }
  Ceilings ceilings() override { return to_->ceilings(); }

 protected:
  void release(void*) noexcept override {}  // buffers are the other's

 private:
  std::unique_ptr<Device> to_;
  DeviceInfo info_;
};

}  // namespace gdn::hip
