// The CPU as a Device: host memory, synchronous "stream", steady_clock timing.
#pragma once

#include <functional>
#include <memory>

#include "interface/device.h"

namespace gdn::cpu {

BackendStatus status();
std::unique_ptr<Device> open();

}  // namespace gdn::cpu
