// The work of the gated norm, whoever ends in it.
#pragma once

#include "harness/operations/active_work.h"

namespace gdn {

/// Five operations for each element of y: the square and its sum, and three products.
inline double gated_norm_flops(const Case& inputs) {
  const Problem& p = inputs.problem;
  return 5 * static_cast<double>(active_work(inputs).tokens) *
         static_cast<double>(p.num_value_heads * p.value_head_dim);
}

}  // namespace gdn
