// The function of gated_delta_backward that is compiled once per instruction set (cpu/instruction_set.h), with
// what its plans must know of it. Signature as GradientFunction in groupwise.h.
#pragma once

#include <cstdint>

#include "cpu/gated_delta_backward/operands.h"
#include "cpu/instruction_set.h"

namespace gdn::cpu {

/// Floats of workspace that chunkwise_gradients takes for chunks of C tokens.
std::int64_t chunkwise_gradients_floats(const Problem& problem, std::int64_t C);

GDN_CPU_DECLARE(void chunkwise_gradients(const GatedDeltaBackwardOperands& operands,
                                         const HeadTask& task, std::int64_t chunk, float* workspace,
                                         float* d_query, float* d_key, GateSums& sums))

}  // namespace gdn::cpu
