// The gated norm of one row of floats (docs/contract.md, section 1.5).
#pragma once

#include <cstdint>

#include "cpu/instruction_set.h"
#include "interface/problem.h"

namespace gdn::cpu {

/// y = x / sqrt(mean(x^2) + eps) * weight * gate(z); all of `width` values, y apart from the others.
GDN_CPU_DECLARE(void norm_row(const float* x, const float* z, const float* weight,
                              std::int64_t width, float eps, NormGate gate, float* y))

}  // namespace gdn::cpu
