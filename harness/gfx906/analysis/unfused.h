// The chunkwise form as a chain of separate launches (unfused.hip), to be compared with. Not among
// the registered implementations: it does one float32 sequence and no more.
#pragma once

#include "interface/implementation.h"

namespace gdn::hip {

/// "hip/unfused". Its plan's launches are one per product and elementwise step.
const Implementation& unfused_chain();

}  // namespace gdn::hip
