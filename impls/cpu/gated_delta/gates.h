// Typed gates and betas to log_decay and beta, in float32 (docs/contract.md, section 1.1): the one
// decoder of the CPU backend.
#pragma once

#include <algorithm>
#include <cmath>

#include "interface/gate_encoding.h"

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

/// exp(A_log), held within float32. Where it would leave it the sigmoid below has saturated for every
/// x but zero, and infinity * 0 is never formed.
inline float finite_rate(float A_log) { return std::exp(std::min(A_log, 88.0f)); }

/// g = -bound * sigmoid(exp(A_log) * (f + dt_bias)).
inline float log_decay_of_bounded_logit(float f, float A_log, float dt_bias, float bound) {
  return -bound * sigmoid(finite_rate(A_log) * (f + dt_bias));
}

/// beta from what the array of an encoding holds.
inline float decode_beta(BetaEncoding encoding, float x) {
  switch (encoding) {
    case BetaEncoding::logit:
      return sigmoid(x);
    case BetaEncoding::logit2:
      return 2 * sigmoid(x);
    case BetaEncoding::beta:
      break;
  }
  return x;
}

}  // namespace gdn::cpu
