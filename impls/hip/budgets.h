// What each kernel may use. A kernel that spills still computes the right numbers, so nothing but a
// check of the compiled code finds it.
#pragma once

#include <string>
#include <vector>

#include "hip/emulator/code_object.h"

namespace gdn::hip {

struct Budget {
  std::string prefix;  ///< of kernel names; the longest that matches holds
  int vgprs = 256;
  int lds_bytes = 65536;
  int waves_per_simd = 1;  ///< at least
  /// Scalar registers kept in lanes of a VGPR (no memory is touched): masks of bounds checks,
  /// mostly.
  int sgpr_spills = 0;
};

/// The budgets of this backend's kernels. VGPR spills and scratch memory are never allowed.
const std::vector<Budget>& kernel_budgets();
/// One line for each limit the kernel breaks; a kernel without a budget breaks one.
std::vector<std::string> budget_violations(const gfx906::KernelResources& kernel,
                                           const std::vector<Budget>& budgets);

}  // namespace gdn::hip
