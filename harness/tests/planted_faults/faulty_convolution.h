// A causal_conv1d implementation with one planted fault, as harness/tests/planted_faults/faulty_implementation.h
// has them for gated_delta.
#pragma once

#include "harness/tests/planted_faults/faulty_implementation.h"

namespace gdn::testing {

/// Any dtype, layout, slots, bias and activation; windows in place or not.
std::unique_ptr<Implementation> make_faulty_convolution(Fault fault);

}  // namespace gdn::testing
