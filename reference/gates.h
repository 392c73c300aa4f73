// From the encodings a model stores to log_decay and beta (docs/contract.md, section 1.1), one
// scalar at a time.
//
// What is defined at the extremes, for every implementation (float32 exp overflows beyond 88.7):
//   * softplus(x) = max(x, 0) + log1p(exp(-|x|)): x itself for large x, never infinite.
//   * g = -exp(A_log) * softplus(x), x = decay_logit + dt_bias, is the value of the real product.
//     Where exp(A_log) overflows or softplus underflows, the product is exp(A_log + log
//     softplus(x)), so that infinity * 0 is never formed: A_log = 100, x = -200 is g = -exp(-100),
//     a decay of 1. A product that itself overflows is g = -infinity, a full reset.
//   * sigmoid(x) underflows to 0 and saturates at 1 without forming infinity / infinity.
//   * decay = 0 is g = -infinity, neg_log_decay = +infinity likewise.
#pragma once

#include <algorithm>
#include <cmath>

#include "interface/gate_encoding.h"

namespace gdn::reference {

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

/// g from what the array of an encoding holds; A_log and dt_bias are read where it has them.
template <typename Scalar>
Scalar decode_log_decay(GateEncoding encoding, Scalar x, Scalar A_log, Scalar dt_bias) {
  switch (encoding) {
    case GateEncoding::log_decay:
      return x;
    case GateEncoding::decay:
      return std::log(x);
    case GateEncoding::neg_log_decay:
      return -x;
    case GateEncoding::logits:
      return log_decay_from_logit(A_log, x + dt_bias);
  }
  return x;
}

template <typename Scalar>
Scalar decode_beta(BetaEncoding encoding, Scalar x) {
  return encoding == BetaEncoding::beta ? x : sigmoid(x);
}

}  // namespace gdn::reference
