// What plans of the gated norm and of its gradients say to their kernels alike. Host.
#pragma once

#include <cstdint>

#include "hip/gated_rms_norm/params.h"
#include "interface/operations/gated_rms_norm.h"
#include "interface/problem.h"

namespace gdn::hip {

inline NormGateKind gate_kind_of(NormGate gate) {
  switch (gate) {
    case NormGate::silu:
      return NormGateKind::silu;
    case NormGate::sigmoid:
      return NormGateKind::sigmoid;
    case NormGate::sigmoid2:
      break;
  }
  return NormGateKind::sigmoid2;
}

/// Whether an array is aligned to packets of the token dtype.
inline bool is_of_packets(const Problem& problem, const void* array) {
  return reinterpret_cast<std::uintptr_t>(array) % (kNormPacket * size_of(problem.token_dtype)) ==
         0;
}

/// Whether every row of the inputs is whole packets, and aligned to them.
inline bool takes_packets(const Problem& problem, const GatedRmsNormArguments& arguments) {
  return problem.value_head_dim % kNormPacket == 0 && arguments.x_token_stride % kNormPacket == 0 &&
         arguments.z_token_stride % kNormPacket == 0 && is_of_packets(problem, arguments.x) &&
         is_of_packets(problem, arguments.z) && is_of_packets(problem, arguments.weight);
}

/// All but the output and the size of the grid.
inline NormParams norm_params(const Problem& problem, const GatedRmsNormArguments& arguments) {
  NormParams params{};
  params.x = arguments.x;
  params.z = arguments.z;
  params.weight = arguments.weight;
  params.sequence_offsets = arguments.sequence_offsets;
  params.num_sequences = problem.num_sequences();
  params.x_token_stride = arguments.x_token_stride;
  params.z_token_stride = arguments.z_token_stride;
  params.num_value_heads = static_cast<std::int32_t>(problem.num_value_heads);
  params.width = static_cast<std::int32_t>(problem.value_head_dim);
  params.eps = static_cast<float>(problem.norm_eps);
  params.gate = gate_kind_of(problem.norm_gate);
  return params;
}

}  // namespace gdn::hip
