// What wrong gradients of the recurrence look like: the part of harness/explain/fault_patterns.h about
// gated_delta_backward. Which gradients are wrong says most, for each is made at its own place from what others
// are made of too.
#pragma once

#include <vector>

#include "harness/explain/fault_patterns.h"

namespace gdn {

/// Empty where every gradient is right, and of other operations. With D the gradient by the state, from the last
/// token to the first, the places are
///
///   unwritten        d_initial_state alone, whole and not finite
///   not finite       any other gradient that is not
///   tail chunk       only tokens behind the last whole chunk
///   norm             d_q or d_k has a part along its own row
///   batch sums       d_A_log and d_dt_bias alone
///   gate gradient, beta gradient, value gradient, query gradient, key gradient, initial gradient
///                    one of them alone, that of the gates with their batch sums
///   group sum        d_q and d_k are those of one value head of each key head
///   scores           d_q and d_k alone, otherwise wrong
///   state products   D and d_v are right, others are not
///   final gradient   gradients are those of d_final_state = 0
///   precision        every element of d_initial_state is a number of 16 bits
///   gradient pass    d_v is right in the whole last chunk, and wrong before it
///   intra-chunk      d_v is right at the last token, and wrong before it in the last chunk
///   incoming gradient
///                    d_v is wrong at the last token too
std::vector<FaultPattern> find_gradient_patterns(const CheckedReference& reference,
                                                 const Outputs& outputs, const Anatomy& anatomy);

}  // namespace gdn
