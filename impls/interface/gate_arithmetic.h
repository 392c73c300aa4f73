// From the encodings a model stores to log_decay and beta (docs/contract.md, section 1.1), one
// scalar at a time: what the reference computes with, and whoever needs float64 on the host.
//
// What is defined at the extremes, for every implementation (float32 exp overflows beyond 88.7):
//   * softplus(x) = max(x, 0) + log1p(exp(-|x|)): x itself for large x, never infinite.
//   * g = -exp(A_log) * softplus(x), x = decay_logit + dt_bias, is the value of the real product.
//     Where exp(A_log) overflows or softplus underflows, the product is exp(A_log + log
//     softplus(x)), so that infinity * 0 is never formed: A_log = 100, x = -200 is g = -exp(-100),
//     a decay of 1. A product that itself overflows is g = -infinity, a full reset.
//   * sigmoid(x) underflows to 0 and saturates at 1 without forming infinity / infinity.
//   * g = -bound * sigmoid(y), y = exp(A_log) * x, x = bounded_decay_logit + dt_bias, is within
//     -bound..0 for every A_log and x. exp(A_log) is held where the scalar has it (it saturates there
//     for any x but zero), so that infinity * 0 is never formed: x = 0 is g = -bound / 2.
//   * decay = 0 is g = -infinity, neg_log_decay = +infinity likewise.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "interface/gate_encoding.h"

namespace gdn::gate_arithmetic {

template <typename Scalar>
Scalar softplus(Scalar x) {
  return std::max(x, Scalar(0)) + std::log1p(std::exp(-std::abs(x)));
}

/// log(softplus(x)). Below -40, softplus(x) = e^x (1 - e^x / 2 + ...), and the correction is under
/// the roundoff of every scalar here relative to |x| >= 40 (e^-40 = 4e-18).
template <typename Scalar>
Scalar log_softplus(Scalar x) {
  return x < Scalar(-40) ? x : std::log(softplus(x));
}

template <typename Scalar>
Scalar sigmoid(Scalar x) {
  if (x >= Scalar(0)) return Scalar(1) / (Scalar(1) + std::exp(-x));
  const Scalar e = std::exp(x);
  return e / (Scalar(1) + e);
}

template <typename Scalar>
Scalar log_decay_from_logit(Scalar A_log, Scalar x) {
  const Scalar rate = std::exp(A_log);
  const Scalar step = softplus(x);
  if (std::isfinite(rate) && step > Scalar(0)) return -rate * step;
  return -std::exp(A_log + log_softplus(x));
}

/// exp(A_log), held within the range of the scalar: at most 2^(0.99 max_exponent), ln 2 being 0.693.
template <typename Scalar>
Scalar finite_rate(Scalar A_log) {
  constexpr Scalar kMost = Scalar(std::numeric_limits<Scalar>::max_exponent) * Scalar(0.6875);
  return std::exp(std::min(A_log, kMost));
}

template <typename Scalar>
Scalar log_decay_from_bounded_logit(Scalar A_log, Scalar x, Scalar bound) {
  return -bound * sigmoid(finite_rate(A_log) * x);
}

/// g from what the array of an encoding holds; A_log, dt_bias and the bound are read where it has them.
template <typename Scalar>
Scalar decode_log_decay(GateEncoding encoding, Scalar x, Scalar A_log, Scalar dt_bias,
                        Scalar bound) {
  switch (encoding) {
    case GateEncoding::log_decay:
      return x;
    case GateEncoding::decay:
      return std::log(x);
    case GateEncoding::neg_log_decay:
      return -x;
    case GateEncoding::logits:
      return log_decay_from_logit(A_log, x + dt_bias);
    case GateEncoding::bounded:
      return log_decay_from_bounded_logit(A_log, x + dt_bias, bound);
  }
  return x;
}

template <typename Scalar>
Scalar decode_beta(BetaEncoding encoding, Scalar x) {
  switch (encoding) {
    case BetaEncoding::beta:
      return x;
    case BetaEncoding::logit:
      return sigmoid(x);
    case BetaEncoding::logit2:
      return 2 * sigmoid(x);
  }
  return x;
}

}  // namespace gdn::gate_arithmetic
