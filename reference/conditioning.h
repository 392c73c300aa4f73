// How much of an implementation's rounding the problem itself amplifies: numbers measured from the
// inputs in float64, from which the error limits of ill-conditioned problems follow
// (recurrence_limits.cpp). They are properties of the problem and of its chunk size, not of any
// implementation's result.
//
// With the notation of docs/contract.md, section 2, in a chunk of C rows (a row is one Householder
// step of a token: one token where steps = 1; the token's decay belongs to its first row):
//     L = I + strict_lower(diag(beta) (K K^T * D)),   V' = L^-1 diag(beta) V,
//     S = (diag(gamma_C / gamma) K)^T V'
// V' and S being what the chunk makes of a zero state. With one decay per key channel, (K K^T *
// D)_ij is sum_d k_id k_jd D_ijd. The additive update has no coupling: L = I.
#pragma once

#include <string>
#include <vector>

#include "reference/reference.h"

namespace gdn::reference {

/// Each the worst over the (sequence, head) pairs, but for the readouts; the first two averaged
/// over a pair's chunks.
struct Conditioning {
  /// Mean absolute row sum of L^-1. An error of u in L is one of L^-1 u L^-1 in its inverse, and a
  /// solution by substitution or by any inverse is wrong by this number squared, in units of u
  /// (relative to updates of their usual size). 1.3 to 3 for unit keys in random directions and for
  /// text; 2 for equal keys and beta = 1, C for equal keys and beta = 2.
  double inverse_growth = 1;
  /// sqrt(sum_i |k_i V'_i|^2) / |S|, decays included: how much larger the updates are than the
  /// state they add up to. Rounding them to 16 bits is wrong by this many roundings of the state.
  /// About 1 for keys in random directions; sqrt(2C) for equal keys and beta = 1.
  double cancellation = 1;
  /// Updates whose rounding errors are still in the state together: the largest value of
  /// m <- exp(2 g_t) m + n over a sequence (n steps per token) and, with one decay per channel,
  /// over the channels. n T without decay. Errors of independent roundings grow with its square
  /// root.
  double memory_tokens = 1;
  /// Root mean square over a sequence of exp(g_t) G_t, G_t the sum of |g| since the chunk began, t
  /// included. Forms that keep G in float32 have it wrong by G unit roundoffs, hence every decay
  /// exp(G_j - G_i) by as much, relatively; exp(g_t) is the largest of them that is not exactly 1.
  /// Each |g| counts up to 104 (exp(-104) is zero in float32, and such forms may clamp there). With
  /// one decay per channel the mean is over the channels too.
  double chunk_log_decay = 0;
  /// |q * S| / |o| over a sequence's tokens, |q * S| the norm of the products q_d S_de that an
  /// output element sums: how much smaller the output is than what it is the sum of. Of sequences
  /// of at most 32 tokens, every one of them, from its initial state on; 1 for longer ones, where a
  /// token that cancels is one of many. About 1 for queries in random directions of the state; the
  /// first token of a zero or forgotten state is v times beta q.k, and q.k may be as good as zero.
  /// In the order of pairs_of; empty if all are 1.
  std::vector<double> readouts;
  /// How much larger a relative error of the recurrence's output is behind the gated norm of a layer,
  /// which makes tokens of small values as large as the others: the norm's derivative for errors
  /// that are spread evenly over the tokens and channels (gated_rms_norm.h). 1 where all tokens are of
  /// one size, and for a single token. In the order of pairs_of; empty if there is no norm.
  std::vector<double> norm_growths;
  /// Rows in a chunk.
  double chunk = 64;
};

/// What the problem's operation measures; the defaults where it amplifies nothing. `reference`: what
/// evaluate() gave.
Conditioning measure_conditioning(const Case& inputs, const Arrays<double>& reference,
                                  const EvaluationOptions& options = {});

/// "growth of the chunk inverse 1.3, cancellation 1.0, memory 8 tokens", and what a norm adds.
std::string recurrence_conditioning_text(const Conditioning& conditioning);

}  // namespace gdn::reference
