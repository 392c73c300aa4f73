// What the gradients of the causal convolution are made of (docs/contract.md, section 1.12), for dense
// float rows of `channels`: ext [tokens + width - 1, channels], weight [width, channels], and g, the
// gradient behind the weighted sum, [tokens, channels].
#pragma once

#include <cstdint>

#include "cpu/instruction_set.h"

namespace gdn::cpu {

/// g[t, c] = d_y[t, c] act'(bias[c] + sum_j weight[j, c] ext[t + j, c]).
GDN_CPU_DECLARE(void slope_rows(const float* ext, const float* weight, const float* bias,
                                const float* d_y, std::int64_t tokens, std::int64_t channels,
                                std::int64_t width, bool silu, float* g))
/// d[t, c] = sum_j weight[j, c] g[t + width - 1 - j, c], of g [tokens + width - 1, channels].
GDN_CPU_DECLARE(void spread_rows(const float* g, const float* weight, std::int64_t tokens,
                                 std::int64_t channels, std::int64_t width, float* d))
/// Adds to sums [width + 1, channels]: sum_t g[t, c] ext[t + j, c] of every j, and sum_t g[t, c].
GDN_CPU_DECLARE(void add_weight_sums(const float* ext, const float* g, std::int64_t tokens,
                                     std::int64_t channels, std::int64_t width, double* sums))

}  // namespace gdn::cpu
