// CUDA devices behind gdn::Device. Plain C++: includes no CUDA header.
#pragma once

#include <memory>

#include "cuda/target.h"
#include "interface/device.h"

namespace gdn::GDN_CUDA_TARGET {

/// Available when the driver answers and has at least one device of compute capability 8.0 or more;
/// otherwise the driver's own words.
BackendStatus status();
/// Throws Error(device_unavailable) with the reason: no driver, no such index, too old a device.
std::unique_ptr<Device> open(int index);

/// The runtime's index of a CUDA device, or of a device that wraps one. Throws Error(bad_input) for
/// another backend's.
int device_index(const Device& device);

}  // namespace gdn::GDN_CUDA_TARGET
