#include "cuda/telemetry.h"

#include <dlfcn.h>

namespace gdn::cuda {
namespace {

// The part of NVML's C interface used here: its header is not in every toolkit. Every function
// returns a status, 0 for success.
using NvmlDevice = struct nvmlDevice_st*;
constexpr int kSuccess = 0;
constexpr int kMemoryClock = 2;     // NVML_CLOCK_MEM
constexpr int kGpuTemperature = 0;  // NVML_TEMPERATURE_GPU

class Nvml {
 public:
  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);  // never closed
    if (library == nullptr) return;
    int (*init)() = nullptr;
    usable = find(library, "nvmlInit_v2", init) &&
             find(library, "nvmlDeviceGetHandleByPciBusId_v2", handle_by_pci) &&
             find(library, "nvmlDeviceGetPowerUsage", power_mw) &&
             find(library, "nvmlDeviceGetEnforcedPowerLimit", power_limit_mw) &&
             find(library, "nvmlDeviceGetClockInfo", clock_mhz) &&
             find(library, "nvmlDeviceGetTemperature", temperature_c) && init() == kSuccess;
  }

  bool usable = false;
  int (*handle_by_pci)(const char*, NvmlDevice*) = nullptr;
  int (*power_mw)(NvmlDevice, unsigned int*) = nullptr;
  int (*power_limit_mw)(NvmlDevice, unsigned int*) = nullptr;
  int (*clock_mhz)(NvmlDevice, int, unsigned int*) = nullptr;
  int (*temperature_c)(NvmlDevice, int, unsigned int*) = nullptr;

 private:
  template <typename Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }
};

}  // namespace

Device::Telemetry read_telemetry(const std::string& pci_bus_id) {
  static const Nvml nvml;
  Device::Telemetry read;
  NvmlDevice card = nullptr;
  if (!nvml.usable || nvml.handle_by_pci(pci_bus_id.c_str(), &card) != kSuccess) return read;
  unsigned int value = 0;
  if (nvml.power_mw(card, &value) == kSuccess) read.power_w = value / 1e3;
  if (nvml.power_limit_mw(card, &value) == kSuccess) read.power_limit_w = value / 1e3;
  if (nvml.clock_mhz(card, kMemoryClock, &value) == kSuccess) read.memory_clock_mhz = value;
  if (nvml.temperature_c(card, kGpuTemperature, &value) == kSuccess) read.temperature_c = value;
  return read;
}

}  // namespace gdn::cuda
