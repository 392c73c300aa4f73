// The forms in which gates and betas come (docs/contract.md, section 1.1). Plain C++ without other
// headers of the project: device code of every backend includes it.
//
// Where a further encoding goes: an enumerator here, its entry in gate_encoding_table.h, its arithmetic
// once for each kind of code (gate_arithmetic.h in float64; impls/cpu/gated_delta/operands.cpp,
// impls/cuda/gates.cuh and impls/hip/gated_delta/device.h in float32, and the channel_sm90 kernel's own), its
// derivative, and how it is drawn. CONTRIBUTING.md, "Add a gate encoding", names every place.
#pragma once

#include <cstdint>

namespace gdn {

/// What the array of gates holds, of which g = log_decay is made.
enum class GateEncoding : std::int32_t {
  log_decay,      ///< g itself
  decay,          ///< exp(g)
  neg_log_decay,  ///< -g
  logits,         ///< g = -exp(A_log) * softplus(decay_logit + dt_bias)
  bounded,        ///< g = -bound * sigmoid(exp(A_log) * (bounded_decay_logit + dt_bias))
};

/// What the array of betas holds.
enum class BetaEncoding : std::int32_t {
  beta,    ///< beta itself
  logit,   ///< beta = sigmoid(beta_logit)
  logit2,  ///< beta = 2 sigmoid(beta_logit2): the transition may have negative eigenvalues
};

}  // namespace gdn
