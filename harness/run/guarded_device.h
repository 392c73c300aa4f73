// Memory with guard bands: what every buffer of a verified run lies in, so that a write past either
// end is found, and a value read from there is a NaN in the outputs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "interface/forwarding_device.h"

namespace gdn {

/// What uninitialised outputs and workspaces are filled with: a NaN in every element type.
inline constexpr unsigned char kPoisonByte = 0xFF;

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
/// in a verified run.
class GuardedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  DeviceBuffer allocate(std::int64_t bytes) override;
  /// As GuardedBuffer::check, of every workspace.
  void check_guards();

 protected:
  void release(void* data) noexcept override { buffers_.erase(data); }

 private:
  std::map<void*, GuardedBuffer> buffers_;
};

}  // namespace gdn
