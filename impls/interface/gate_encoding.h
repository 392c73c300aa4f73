// The forms in which gates and betas come (docs/contract.md, section 1.1). Plain C++ without other
// headers of the project: device code of every backend includes it.
//
// Where a further encoding goes: an enumerator here, its entry in gate_encoding_table.h, its arithmetic
// once for each kind of code (reference/gates.h in float64; impls/cpu/gated_delta/operands.cpp,
// impls/cuda/gates.cuh and impls/hip/gated_delta/device.h in float32), its derivative, and how it is
// drawn. CONTRIBUTING.md, "Add a gate encoding", names every place.
#pragma once

#include <cstdint>

namespace gdn {

/// What the array of gates holds, of which g = log_decay is made.
enum class GateEncoding : std::int32_t {
  log_decay,      ///< g itself
  decay,          ///< exp(g)
  neg_log_decay,  ///< -g
  logits,         ///< g = -exp(A_log) * softplus(decay_logit + dt_bias)
};

/// Whether the beta array holds beta itself or its logit (beta = sigmoid(beta_logit)).
enum class BetaEncoding : std::int32_t { beta, logit };

}  // namespace gdn
