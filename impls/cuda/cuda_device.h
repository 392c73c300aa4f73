// CUDA devices behind gdn::Device. Plain C++: includes no CUDA header.
#pragma once

#include <memory>

#include "interface/device.h"

namespace gdn::cuda {

/// Available when the driver answers and has at least one device of compute capability 8.0 or more;
/// otherwise the driver's own words.
BackendStatus status();
std::unique_ptr<Device> open(int index);

}  // namespace gdn::cuda
