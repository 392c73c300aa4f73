// A device that leaves everything to another: the base of those that change one thing of it.
#pragma once

#include "interface/device.h"

namespace gdn {

/// `inner` must outlive it. Buffers are the inner device's.
class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Device& inner) : inner_(inner) {}

  const DeviceInfo& info() const override { return inner_.info(); }
  DeviceBuffer allocate(std::int64_t bytes) override { return inner_.allocate(bytes); }
  std::int64_t free_memory_bytes() const override { return inner_.free_memory_bytes(); }
  void upload(void* destination, const void* source, std::int64_t bytes) override {
    inner_.upload(destination, source, bytes);
  }
  void download(void* destination, const void* source, std::int64_t bytes) override {
    inner_.download(destination, source, bytes);
  }
  std::uint64_t fingerprint(const void* data, std::int64_t bytes) override {
    return inner_.fingerprint(data, bytes);
  }
  void copy_async(void* destination, const void* source, std::int64_t bytes) override {
    inner_.copy_async(destination, source, bytes);
  }
  void fill_async(void* destination, unsigned char byte, std::int64_t bytes) override {
    inner_.fill_async(destination, byte, bytes);
  }
  void enqueue_copies(std::span<const StridedCopy> copies, void* stream) override {
    inner_.enqueue_copies(copies, stream);
  }
  void enqueue_quantization(const ChannelQuantization& quantization, void* stream) override {
    inner_.enqueue_quantization(quantization, stream);
  }
  void synchronize() override { inner_.synchronize(); }
  void flush_cache_async() override { inner_.flush_cache_async(); }
  TimeSample time_launch(const std::function<void()>& prepare,
                         const std::function<void()>& launch) override {
    return inner_.time_launch(prepare, launch);
  }
  std::function<void()> capture(const std::function<void()>& launch) override {
    return inner_.capture(launch);
  }
  void* native_stream() const override { return inner_.native_stream(); }
  Ceilings ceilings() override { return inner_.ceilings(); }
  Telemetry telemetry() override { return inner_.telemetry(); }

 protected:
  void release(void*) noexcept override {}

  Device& inner_;
};

}  // namespace gdn
