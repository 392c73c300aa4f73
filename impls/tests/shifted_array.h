// Arrays that a caller cut out of others: aligned to their elements alone.
#pragma once

#include <cstdint>
#include <vector>

#include "interface/device.h"
#include "interface/dtype.h"

namespace gdn {

// An array on the device, `shift` elements behind an address that allocate() aligns.
class ShiftedArray {
 public:
  ShiftedArray(Device& device, DType dtype, std::size_t count, std::int64_t shift)
      : device_(device),
        dtype_(dtype),
        bytes_(static_cast<std::int64_t>(count * size_of(dtype))),
        offset_(shift * static_cast<std::int64_t>(size_of(dtype))),
        buffer_(device.allocate(bytes_ + offset_)) {}
  char* data() const { return buffer_.as<char>() + offset_; }
  void upload(const std::vector<float>& values) {
    std::vector<char> encoded(static_cast<std::size_t>(bytes_));
    encode(dtype_, values.data(), encoded.data(), static_cast<std::int64_t>(values.size()));
    device_.upload(data(), encoded.data(), bytes_);
  }
  std::vector<float> download() const {
    std::vector<char> encoded(static_cast<std::size_t>(bytes_));
    device_.download(encoded.data(), data(), bytes_);
    std::vector<float> values(encoded.size() / size_of(dtype_));
    decode(dtype_, encoded.data(), values.data(), static_cast<std::int64_t>(values.size()));
    return values;
  }

 private:
  Device& device_;
  DType dtype_;
  std::int64_t bytes_;
  std::int64_t offset_;
  DeviceBuffer buffer_;
};

}  // namespace gdn
