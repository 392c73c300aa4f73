// What the driver's management library (NVML) says of a card beside its times. The library belongs
// to the driver and is opened when first asked for: without it nothing is known, and nothing fails.
#pragma once

#include <string>

#include "interface/device.h"

namespace gdn::cuda {

/// `pci_bus_id` as cudaDeviceGetPCIBusId writes it. What NVML does not tell stays NaN.
Device::Telemetry read_telemetry(const std::string& pci_bus_id);

}  // namespace gdn::cuda
