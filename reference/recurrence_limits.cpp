// Absolute limits on relative L2, in unit roundoffs u of the arithmetic that makes the result.
//
// The recurrence itself does not amplify errors: for keys of length at most 1 and 0 <= beta <= 2,
// the step S -> exp(g) (I - beta k k^T) S is a contraction. What is left is how many roundings of
// what size are in the result together, and what a chunkwise form adds.
//
// The numbers of conditioning.h: M memory in tokens, G cumulated log decay, E growth of the
// inverse, X cancellation; C tokens in a chunk, N = max(1, M / C) chunks that are in the result
// together.
//
// float32 tokens (u = 2^-24). Errors of independent origin add as squares, beside a base for the
// dot products, exponentials and accumulations of any one token:
//     limit = u max(50, sqrt((2 sqrt(M))^2 + (8 G)^2 + (4 E^2 sqrt(N))^2 + (12 (X - 1))^2))
// 50 u is 3e-6, the limit of every well-conditioned problem.
//
// 16-bit tokens (u = 2^-8, 2^-11): the operands of matrix products are rounded to 16 bits, a few
// roundings (each about 0.4 u) in a row, for the worst single head; the rounded inverse adds an
// error of its growth, rounded updates one of their cancellation:
//     limit = u sqrt(b^2 + (E sqrt(N) / 4)^2 + (X - 1)^2),
//     b u = 1e-2 (bfloat16), 1.5e-3 (float16)
// A bfloat16 output alone has an error of 1.66e-3, its rounding.
//
// The factors were set by emulating both forms (token recurrence; chunkwise with substitution and
// with an explicit inverse) over combinations of the generated gates, betas, keys (all but
// unnormalised) and initial states, every one at beta = 2: float32 in chunks of 16 to 256 over 64
// to 8192 tokens, 16 bits in chunks of 32 and 64 over 64 to 1024. The nearest float32 result lies
// at 0.86 of its limit, the nearest 16-bit result by substitution at 0.93. A 16-bit form that
// rounds its explicit inverse exceeds them where keys repeat and beta passes 1: errors there grow
// to the size of the result.
//
// The output alone, pair by pair: where a pair's readout R cancels, the roundings of a dot
// product's terms and partial sums (each a fraction of u of them, some sqrt(Dk) together) stand
// beside a smaller result:
//     output limit of the pair = sqrt(limit^2 + (c u)^2 (R^2 - 1)),   c = 10 (float32), 2 (16 bits)
//
// No limit is above 0.1: a result with no correct digit is wrong, however ill-conditioned the
// problem. A stored state adds the rounding of its own dtype. The layer doubles the limits: its
// convolution, normalisation and gates round as well, and may hand on tensors in the token dtype.
#include <algorithm>
#include <cmath>

#include "reference/limits.h"

namespace gdn::reference {
namespace {

double arithmetic_limit(DType token_dtype, const Conditioning& c) {
  const double u = unit_roundoff(token_dtype);
  const double chunks = std::sqrt(std::max(1.0, c.memory_tokens / c.chunk));
  if (token_dtype == DType::float32) {
    const double memory = 2 * std::sqrt(c.memory_tokens);
    const double decay = 8 * c.chunk_log_decay;
    const double solve = 4 * c.inverse_growth * c.inverse_growth * chunks;
    const double cancellation = 12 * (c.cancellation - 1);
    return u *
           std::max(50.0, std::hypot(std::hypot(memory, decay), std::hypot(solve, cancellation)));
  }
  const double base = token_dtype == DType::bfloat16 ? 1e-2 : 1.5e-3;
  const double solve = c.inverse_growth * chunks / 4;
  return std::hypot(base, u * std::hypot(solve, c.cancellation - 1));
}

// Of the final state as it is stored: by chance, up to the neighbour that is further away.
double final_rounding(const Problem& problem) {
  const double nearest = unit_roundoff(problem.state_dtype);
  return problem.state_rounding == StateRounding::stochastic ? 2 * nearest : nearest;
}

}  // namespace

ErrorLimits recurrence_limits(const Problem& problem, const Conditioning& conditioning,
                              double factor) {
  const double compute = factor * arithmetic_limit(problem.token_dtype, conditioning);
  const double per_readout = factor * (problem.token_dtype == DType::float32 ? 10 : 2) *
                             unit_roundoff(problem.token_dtype);
  const auto of_state = [&](DType stored) {
    return OutputLimit{std::min(compute + unit_roundoff(stored), kLargestLimit), 0};
  };
  OutputLimit final_state = of_state(problem.state_dtype);
  final_state.relative_l2 = std::min(compute + final_rounding(problem), kLargestLimit);
  // In int8 half a step of each element, which errors.h adds, stands for the rounding of the type; what is
  // rounded there, and the scales, are float32.
  const bool has_scales = problem.effective_checkpoint_dtype() == DType::int8;
  const DType checkpoints = has_scales ? DType::float32 : problem.effective_checkpoint_dtype();
  return {{"output", {std::min(compute, kLargestLimit), per_readout}},
          {"final_state", final_state},
          {"checkpoint_states", of_state(checkpoints)},
          {"checkpoint_scales", of_state(DType::float32)}};
}

// An error of the state is an error of the outputs as large, relative to the state; outputs that
// cancel see it larger: twice, and as much as a measured readout cancels. Independent roundings add
// as squares.
//
// These limits end at 0.1 as well: unbounded, a bfloat16 state rounded at each of 16384 tokens
// without decay would be allowed an error of 1, which a result of nothing but zeros keeps to. Most
// chains stay well below: 3000 calls of a token each without decay make errors of 1.2e-2 in a
// bfloat16 state (random keys), 6e-2 where beta is 2. Where keys repeat as well and beta is 2, they
// make 0.19: no digit of such a state is right, and it is refused.
void widen_recurrence_limits(ErrorLimits& limits, const Problem& problem,
                             const Conditioning& conditioning, double roundings) {
  const double together = std::min(roundings, std::max(1.0, conditioning.memory_tokens));
  const double rounding = final_rounding(problem) * std::sqrt(together);
  const auto widen = [](OutputLimit& limit, double by) {
    limit.relative_l2 = std::min(limit.relative_l2 + by, kLargestLimit);
  };
  widen(limits["output"], 2 * rounding);
  limits["output"].per_readout += rounding;
  widen(limits["final_state"], rounding);
  widen(limits["checkpoint_states"], rounding);
  widen(limits["checkpoint_scales"], rounding);
}

}  // namespace gdn::reference
