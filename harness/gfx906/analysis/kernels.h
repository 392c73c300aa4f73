// The kernels of this folder, which the gfx906 backend does not know of itself.
#pragma once

#include "hip/budgets.h"
#include "hip/code_objects.h"

namespace gdn::hip {

const std::vector<EmbeddedCodeObject>& analysis_code_objects();
const std::vector<Budget>& analysis_budgets();

/// Before the first launch of one of them, on any device.
void add_analysis_kernels();

}  // namespace gdn::hip
