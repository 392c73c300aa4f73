#include "interface/device.h"

#include <algorithm>

#include "interface/fingerprint.h"

namespace gdn {

std::uint64_t Device::fingerprint(const void* data, std::int64_t bytes) {
  constexpr std::int64_t kBlockBytes = std::int64_t{1} << 20;
  std::vector<unsigned char> seen(static_cast<std::size_t>(std::min(kBlockBytes, bytes)));
  std::uint64_t sum = 0;
  for (std::int64_t at = 0; at < bytes; at += kBlockBytes) {
    const std::int64_t n = std::min(kBlockBytes, bytes - at);
    download(seen.data(), static_cast<const char*>(data) + at, n);
    sum += fingerprint_of(seen.data(), n, at / 8);
  }
  return sum;
}

DeviceBuffer::~DeviceBuffer() {
  if (device_ != nullptr && data_ != nullptr) device_->release(data_);
}

}  // namespace gdn
