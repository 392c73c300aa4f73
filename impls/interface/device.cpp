#include "interface/device.h"

namespace gdn {

DeviceBuffer::~DeviceBuffer() {
  if (device_ != nullptr && data_ != nullptr) device_->release(data_);
}

}  // namespace gdn
