#include "interface/implementation.h"

#include "interface/error.h"
#include "interface/phase_group.h"

namespace gdn {

void Plan::run_phase(int) {
  throw Error(ErrorKind::unsupported, "run_phase: the operation has no phases");
}

std::unique_ptr<PhaseGroup> Plan::group(std::span<Plan* const>, int, Device&) const {
  return nullptr;
}

Support runs_on(const Implementation& implementation, const DeviceInfo& device) {
  const Description& description = implementation.description();
  if (device.runs != description.backend) {
    return Support::no(description.name + " needs a " + description.backend + " device, not " +
                       device.backend);
  }
  const int capability = device.compute_capability;
  const auto dotted = [](int cc) {
    return std::to_string(cc / 10) + "." + std::to_string(cc % 10);
  };
  if (description.exact_compute_capability != 0 &&
      capability != description.exact_compute_capability) {
    return Support::no(description.name + " needs compute capability " +
                       dotted(description.exact_compute_capability) + "; " + device.name + " has " +
                       dotted(capability));
  }
  if (capability < description.min_compute_capability) {
    return Support::no(description.name + " needs compute capability " +
                       dotted(description.min_compute_capability) + " or later; " + device.name +
                       " has " + dotted(capability));
  }
  return Support::yes();
}

void require_supported(const Implementation& implementation, const Problem& problem) {
  Support support = description_support(implementation.description(), problem);
  if (support) support = implementation.supports(problem);
  if (!support) {
    throw Error(ErrorKind::unsupported, implementation.description().name + ": " + support.reason);
  }
}

}  // namespace gdn
