// Absolute limits on relative L2, in unit roundoffs u of the arithmetic that makes the result.
//
// The recurrence itself does not amplify errors: for keys of length at most 1 and 0 <= beta <= 2,
// the step S -> exp(g) (I - beta k k^T) S is a contraction. What is left is how many roundings of
// what size are in the result together, and what a chunkwise form adds.
//
// float32 tokens (u = 2^-24). Errors of independent origin add as squares, beside a base for the
// dot products, exponentials and accumulations of any one token:
//     limit = u max(50, sqrt((2 sqrt(M))^2 + (3 G)^2 + (4 kappa)^2))
//   M      memory in tokens: n independent roundings of the state add up to sqrt(n) of them
//   G      cumulated log decay of a chunk: its two exponents are each wrong by about G u
//   kappa  Skeel condition of the chunk's triangular system: solving it by substitution, or by an
//          explicit inverse, is wrong by a small multiple of kappa u
// 50 u is 3e-6, the limit of every well-conditioned problem (M up to 600, G up to 16, kappa up to
// 10). The factors are 1.3 to 2 times the largest errors of float32 evaluations of both forms
// (token recurrence; chunkwise with substitution and with explicit inverse; chunks of 16 to 256)
// over every combination of the generated gates, betas, keys and initial states at 64 to 8192
// tokens.
//
// 16-bit tokens (u = 2^-8, 2^-11): the operands of matrix products are rounded to 16 bits, a few
// roundings (each about 0.4 u) in a row, and the rounded inverse is wrong relative to the chunk's
// condition:
//     limit = u sqrt(b^2 + (kappa / 6)^2),   1e-2 (bfloat16) or 1.5e-3 (float16) = b u
// for the worst single head. A bfloat16 output alone has an error of 1.66e-3, its rounding.
//
// No limit is above 0.1: a result with no correct digit is wrong, however ill-conditioned the
// problem. A stored state adds the rounding of its own dtype. The layer doubles the limits: its
// convolution, normalisation and gates round as well, and may hand on tensors in the token dtype.
#include <algorithm>
#include <cmath>

#include "reference/errors.h"

namespace gdn::reference {
namespace {

constexpr double kLargestLimit = 0.1;

double arithmetic_limit(DType token_dtype, const Conditioning& c) {
  const double u = unit_roundoff(token_dtype);
  if (token_dtype == DType::float32) {
    const double memory = 2 * std::sqrt(c.memory_tokens);
    const double amplified =
        std::hypot(std::hypot(memory, 3 * c.chunk_log_decay), 4 * c.chunk_solve);
    return u * std::max(50.0, amplified);
  }
  const double base = token_dtype == DType::bfloat16 ? 1e-2 : 1.5e-3;
  return std::hypot(base, u * c.chunk_solve / 6);
}

}  // namespace

ErrorLimits error_limits(const Problem& problem, const Conditioning& conditioning) {
  ErrorLimits limits;
  // Fewer than 16 multiply-adds and an activation in float32, and one rounding to the token dtype.
  limits.conv_output = 16 * unit_roundoff(DType::float32) + unit_roundoff(problem.token_dtype);
  if (problem.operation == Operation::causal_conv1d) {
    limits.output = limits.conv_output;  // its windows are judged as copies: first_violation
    return limits;
  }
  double compute = arithmetic_limit(problem.token_dtype, conditioning);
  if (problem.operation == Operation::gated_delta_layer) compute *= 2;
  limits.output = std::min(compute, kLargestLimit);
  limits.state = std::min(compute + unit_roundoff(problem.state_dtype), kLargestLimit);
  return limits;
}

}  // namespace gdn::reference
