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
/// Floats of workspace that chunkwise_head and chunkwise_channel_head take for chunks of C steps.
std::int64_t chunkwise_workspace_floats(const Problem& problem, std::int64_t C);
std::int64_t chunkwise_channel_workspace_floats(const Problem& problem, std::int64_t C);

/// One decay per head.
GDN_CPU_DECLARE(void chunkwise_head(const GatedDeltaOperands& operands, const HeadTask& task,
                                    std::int64_t chunk, float* workspace))
/// One decay per key channel.
GDN_CPU_DECLARE(void chunkwise_channel_head(const GatedDeltaOperands& operands,
                                            const HeadTask& task, std::int64_t chunk,
                                            float* workspace))

}  // namespace gdn::cpu
