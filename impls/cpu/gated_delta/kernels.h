// The functions of gated_delta that are compiled once per instruction set (cpu/instruction_set.h),
// with what their plans must know of them. Signatures as HeadFunction in headwise.h.
#pragma once

#include <cstdint>

#include "cpu/gated_delta/operands.h"
#include "cpu/instruction_set.h"

namespace gdn::cpu {

/// Tokens that recurrent_head decodes at a time.
inline constexpr std::int64_t kRecurrentTileTokens = 64;

GDN_CPU_DECLARE(void recurrent_head(const GatedDeltaOperands& operands, const HeadTask& task,
                                    std::int64_t chunk, float* workspace))
GDN_CPU_DECLARE(void chunkwise_head(const GatedDeltaOperands& operands, const HeadTask& task,
                                    std::int64_t chunk, float* workspace))

}  // namespace gdn::cpu
