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

/// Fifteen for its gradients: what of y is computed again (the square and its sum, x / n, and two
/// products for the gradient behind the gate), the product with x / n and its sum, three for d_x,
/// two for d_z, three for d_weight and its sum.
inline double gated_norm_gradient_flops(const Case& inputs) { return 3 * gated_norm_flops(inputs); }

}  // namespace gdn
