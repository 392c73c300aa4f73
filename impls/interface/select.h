// Which implementation a caller gets: by name, all that run here, or the best for a problem.
#pragma once

#include <string>
#include <vector>

#include "interface/implementation.h"

namespace gdn {

/// Implementations named, or all that this device can run. A named one that the device cannot run
/// is Error(unsupported) with the reason; an unknown name Error(bad_input) with the nearest.
std::vector<const Implementation*> choose_implementations(const std::vector<std::string>& names,
                                                          const DeviceInfo& device);

/// What select() chose, and why.
struct Selection {
  const Implementation* implementation = nullptr;
  /// One line: "cuda/fused: cuda/fused_sm90 does not do it: Dk=64 ...".
  std::string reason;
};
/// The implementation of highest rank (Implementation::rank) that does the problem on the device;
/// the first listed of equals. Throws Error(unsupported), with every reason, if none does.
Selection select(const Problem& problem, const DeviceInfo& device);

}  // namespace gdn
