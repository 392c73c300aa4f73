// What a gate's or beta's gradient is multiplied by on its way to the array that it was decoded
// from (docs/contract.md, section 1.4). Included by .hip files only.
#pragma once

#include "hip/gated_delta/device.h"

namespace gdn::hip {

/// d log_decay / d its logit, and / d A_log; of log_decay and neg_log_decay the first is a sign.
struct GateSlopes {
  float of_gate = 1.0f;
  float of_A_log = 0.0f;
};

/// Of x = logit + dt_bias. Where one factor of exp(A_log) sigmoid(x) leaves float32 alone, the two
/// are one exponential: log sigmoid(x) = -softplus(-x).
__device__ __forceinline__ float decay_per_logit(float A_log, float x) {
  const float rate = expf(A_log), slope = sigmoid(x);
  const bool apart = rate <= 3.4e38f && slope > 1e-30f;
  return apart ? -rate * slope : -expf(A_log - softplus(-x));
}

/// Of x = bounded logit + dt_bias, with y = exp(A_log) x. 1 - sigmoid(y) would cancel. Where the
/// sigmoid has saturated nothing is left, however large the other factor is.
__device__ __forceinline__ GateSlopes slopes_of_bounded_logit(float A_log, float x, float bound) {
  const float rate = expf(fminf(A_log, 88.0f)), y = rate * x;
  const float slope = -bound * sigmoid(y) * sigmoid(-y);
  if (slope == 0.0f) return {0.0f, 0.0f};
  return {slope * rate, slope * y};
}

/// Of the array's value x. Of `decay` the gradient is taken by the decay itself: nothing is left to
/// do.
__device__ __forceinline__ GateSlopes gate_slopes(const GatedDeltaParams& p, const HeadGates& head,
                                                  float x) {
  switch (p.gate_encoding) {
    case GateEncoding::neg_log_decay:
      return {-1.0f, 0.0f};
    case GateEncoding::logits:
      return {decay_per_logit(head.A_log, x + head.dt_bias), log_decay_from(p, head, x)};
    case GateEncoding::bounded:
      return slopes_of_bounded_logit(head.A_log, x + head.dt_bias, p.decay_bound);
    case GateEncoding::log_decay:
    case GateEncoding::decay:
      break;
  }
  return {};
}

/// d beta / d the array's value x.
__device__ __forceinline__ float beta_slope(const GatedDeltaParams& p, float x) {
  switch (p.beta_encoding) {
    case BetaEncoding::logit:
      return sigmoid(x) * sigmoid(-x);
    case BetaEncoding::logit2:
      return 2.0f * sigmoid(x) * sigmoid(-x);
    case BetaEncoding::beta:
      break;
  }
  return 1.0f;
}

}  // namespace gdn::hip
