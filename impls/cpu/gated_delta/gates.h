// Typed gates and betas to log_decay and beta, in float32 (docs/contract.md, section 1.1): the one
// decoder of the CPU backend.
#pragma once

#include <cmath>

namespace gdn::cpu {

/// log(1 + exp(x)) without overflow: for x > 0 it is x + log(1 + exp(-x)), exact for large x.
inline float softplus(float x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

/// 1 / (1 + exp(-x)); exp(-x) may overflow to infinity, which gives the right limit, 0.
inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

/// g = -exp(A_log) * softplus(a + dt_bias). Where softplus(x) is e^x to float32 the product is one
/// exponential: exp(A_log) may then overflow and softplus vanish without giving inf * 0.
inline float log_decay_of_logit(float a, float A_log, float dt_bias) {
  const float x = a + dt_bias;
  return x < -17.0f ? -std::exp(A_log + x) : -std::exp(A_log) * softplus(x);
}

}  // namespace gdn::cpu
