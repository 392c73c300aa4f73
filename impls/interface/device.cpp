#include "interface/device.h"

#include "interface/fingerprint.h"

namespace gdn {

std::uint64_t Device::fingerprint(const void* data, std::int64_t bytes) {
  std::vector<unsigned char> seen(static_cast<std::size_t>(bytes));
  download(seen.data(), data, bytes);
  return fingerprint_of(seen.data(), bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (device_ != nullptr && data_ != nullptr) device_->release(data_);
}

}  // namespace gdn
