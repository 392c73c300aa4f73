// A gated_delta_backward implementation with one planted fault, as
// harness/tests/planted_faults/faulty_implementation.h has them for gated_delta.
#pragma once

#include "harness/tests/planted_faults/faulty_implementation.h"

namespace gdn::testing {

/// Everything but bounded gates and [Dv, Dk] states.
std::unique_ptr<Implementation> make_faulty_gradients(Fault fault);

}  // namespace gdn::testing
