// Gradients of the gated norm of one row of floats (docs/contract.md, section 1.13).
#pragma once

#include <cstdint>

#include "cpu/instruction_set.h"
#include "interface/problem.h"

namespace gdn::cpu {

/// With u = x / sqrt(mean(x^2) + eps) and g = d_y weight gate(z):
///     d_x = (g - u mean(u g)) / n;   d_z = d_y u weight gate'(z);   d_weight += d_y u gate(z)
/// All arrays hold `width` values; d_x and d_z are apart from the others and from each other.
GDN_CPU_DECLARE(void norm_row_gradients(const float* x, const float* z, const float* weight,
                                        const float* d_y, std::int64_t width, float eps,
                                        NormGate gate, float* d_x, float* d_z, double* d_weight))

}  // namespace gdn::cpu
