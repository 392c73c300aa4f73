// The gated norm of one row (docs/contract.md, section 1.5), for the operation and for the layer
// that ends in it.
#pragma once

#include <cmath>
#include <cstdint>

#include "interface/gate_arithmetic.h"
#include "interface/problem.h"

namespace gdn::reference {

template <typename Scalar>
Scalar norm_gate_of(NormGate gate, Scalar z) {
  switch (gate) {
    case NormGate::silu:
      return z * gate_arithmetic::sigmoid(z);
    case NormGate::sigmoid:
      return gate_arithmetic::sigmoid(z);
    case NormGate::sigmoid2:
      break;
  }
  return Scalar(2) * gate_arithmetic::sigmoid(z);
}

/// The gate's slope at z, as what it is the sum of; the second is zero but for SiLU. 1 - s is exact
/// where s is nearly 1.
template <typename Scalar>
struct GateSlope {
  Scalar of_gate = 0;  ///< SiLU: s; the others: all of the slope
  Scalar of_z = 0;     ///< SiLU: z s (1 - s)
  Scalar sum() const { return of_gate + of_z; }
};
template <typename Scalar>
GateSlope<Scalar> norm_gate_slope(NormGate gate, Scalar z) {
  const Scalar s = gate_arithmetic::sigmoid(z);
  const Scalar slope = s * gate_arithmetic::sigmoid(-z);
  if (gate == NormGate::silu) return {s, z * slope};
  return {gate == NormGate::sigmoid ? slope : Scalar(2) * slope, 0};
}

/// sqrt(mean(x^2) + eps).
template <typename Scalar, typename Element>
Scalar norm_root(const Problem& p, const Element* x) {
  const std::int64_t width = p.value_head_dim;
  Scalar squares = 0;
  for (std::int64_t j = 0; j < width; ++j) squares += Scalar(x[j]) * Scalar(x[j]);
  return std::sqrt(squares / Scalar(width) + Scalar(p.norm_eps));
}

/// y[j] = x[j] / root * weight[j] * gate(z[j]); y may be x.
template <typename Scalar, typename Element>
void gated_norm_row(const Problem& p, const Element* x, const float* z, const float* weight,
                    Scalar* y) {
  const Scalar root = norm_root<Scalar>(p, x);
  for (std::int64_t j = 0; j < p.value_head_dim; ++j) {
    y[j] = Scalar(x[j]) / root * Scalar(weight[j]) * norm_gate_of(p.norm_gate, Scalar(z[j]));
  }
}

/// Unit roundoffs of float32 that the arithmetic of a row may be wrong by, as the head of
/// operations/gated_rms_norm.cpp counts them.
inline double norm_roundoffs(const Problem& p) {
  return 16 + std::sqrt(static_cast<double>(p.value_head_dim));
}

inline double gated_norm_flops(const Problem& p) {
  return 5.0 * static_cast<double>(p.total_tokens()) *
         static_cast<double>(p.num_value_heads * p.value_head_dim);
}

}  // namespace gdn::reference
