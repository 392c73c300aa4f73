// Copies of pools' rows by the kernel copy_rows (support.hip): what gated_delta_training asks of a device. Other copies
// (conversions of types, more than two dimensions, bounds) have no kernel here.
#pragma once

#include "hip/kernel_launcher.h"
#include "interface/strided_copy.h"

namespace gdn::hip {

/// Enqueues the copy; false, and nothing enqueued, where the kernel does not do it. Nothing to copy is done.
bool launch_row_copy(KernelLauncher& launcher, const StridedCopy& copy);

}  // namespace gdn::hip
