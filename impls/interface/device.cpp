#include "interface/device.h"

#include <algorithm>

#include "interface/error.h"
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

void Device::enqueue_copies(std::span<const StridedCopy> copies, void* /*stream*/) {
  if (copies.empty()) return;
  if (info().has_own_memory) {
    throw Error(ErrorKind::unsupported,
                "device '" + info().backend +
                    "': does not convert tensors; expected dense ones of the operands' own types");
  }
  synchronize();  // what is enqueued runs in the order of its calls
  for (const StridedCopy& copy : copies) copy_on_host(copy);
}

void Device::enqueue_quantization(const ChannelQuantization& quantization, void* /*stream*/) {
  if (info().has_own_memory) {
    throw Error(ErrorKind::unsupported,
                "device '" + info().backend +
                    "': does not quantize; expected outputs in a floating-point type");
  }
  synchronize();  // what is enqueued runs in the order of its calls
  quantize_on_host(quantization);
}

DeviceBuffer::~DeviceBuffer() {
  if (device_ != nullptr && data_ != nullptr) device_->release(data_);
}

}  // namespace gdn
