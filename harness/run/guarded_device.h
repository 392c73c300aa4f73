// Memory with guard bands: what every buffer of a verified run lies in, so that a write past either
// end is found, and a value read from there is a NaN in the outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "interface/forwarding_device.h"

namespace gdn {

/// What uninitialised outputs and workspaces are filled with: a NaN in every element type.
inline constexpr unsigned char kPoisonByte = 0xFF;
/// What stands, in words of 16 bits, where an input has room that nobody may read (behind the last
/// token, between strided tokens): a NaN in every element type too, but of another payload. A NaN
/// computed from it, negated or rounded, has other bits than an output that was never written.
inline constexpr std::uint16_t kUnreadWord = 0x7FD5;

/// Guard, payload, then guard up to the end: the second band starts right behind the last byte.
/// Bands are 4096 bytes of 0x7FFF in 16-bit words: a NaN in float32, bfloat16 and float16.
/// After use_exact_buffers(true) there are no bands.
class GuardedBuffer {
 public:
  GuardedBuffer() = default;
  GuardedBuffer(Device& device, std::int64_t payload_bytes);

  std::int64_t bytes() const { return bytes_; }
  void* data() const;
  template <typename T>
  T* payload() const {
    return static_cast<T*>(data());
  }
  /// Throws Error(device_failure) saying how far outside of `name` was written, if a band changed.
  void check(Device& device, const std::string& name) const;

 private:
  DeviceBuffer memory_;
  std::int64_t bytes_ = 0;
  std::int64_t guard_bytes_ = 0;  ///< of each band
};

/// Buffers made from now on, in this process, are exactly as large as asked for (true), or stand
/// between guard bands (false, the default). Bands find writes out of bounds on any device, but are
/// memory one may read: a checker of memory accesses (compute-sanitizer, AddressSanitizer) sees a
/// read past the end only without them.
void use_exact_buffers(bool exact);

/// A device whose allocations are poisoned and guarded: what plans allocate their workspaces from
/// in a verified run. While a plan runs it only enqueues (interface/implementation.h): allocating,
/// freeing, copying from or to the host and waiting are refused then.
class GuardedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  /// Runs `body` as a plan's run. What it asks for that a run must not do throws
  /// Error(device_failure), which names it.
  void enqueue_only(const std::function<void()>& body);

  DeviceBuffer allocate(std::int64_t bytes) override;
  void upload(void* destination, const void* source, std::int64_t bytes) override;
  void download(void* destination, const void* source, std::int64_t bytes) override;
  std::uint64_t fingerprint(const void* data, std::int64_t bytes) override;
  void synchronize() override;
  /// As GuardedBuffer::check, of every workspace.
  void check_guards();

 protected:
  void release(void* data) noexcept override;

 private:
  void refuse_while_running(const std::string& what) const;

  std::map<void*, GuardedBuffer> buffers_;
  bool running_ = false;
  bool freed_while_running_ = false;  ///< told at the end of the run: release() may not throw
};

}  // namespace gdn
