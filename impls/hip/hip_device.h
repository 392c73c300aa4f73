// gfx906 cards behind gdn::Device, through the HIP runtime's module API. Plain C++: includes no HIP
// header.
#pragma once

#include <memory>
#include <string>

#include "interface/device.h"

namespace gdn::hip {

/// Available when the runtime opens and shows at least one gfx906; otherwise the runtime's own
/// words.
BackendStatus status();
/// `index` counts the gfx906 cards only. Throws Error(device_unavailable).
std::unique_ptr<Device> open(int index);

/// status() and open() as they would be with this runtime library: for tests of the error paths.
BackendStatus status_with(const std::string& library);
std::unique_ptr<Device> open_with(const std::string& library, int index);

}  // namespace gdn::hip
