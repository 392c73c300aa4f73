// How much of an implementation's rounding the problem itself amplifies: three numbers measured
// from the inputs in float64, from which the error limits of ill-conditioned problems follow
// (error_limits.cpp). They are properties of the problem and of its chunk size, not of any
// implementation's result.
#pragma once

#include "reference/reference.h"

namespace gdn::reference {

struct Conditioning {
  /// Skeel condition number of the chunk's triangular system (contract section 2),
  ///     || |L^-1| |L| ||_inf,   L = I + strict_lower(diag(beta) (K K^T * D)),
  /// the factor by which solving it may amplify relative rounding errors (Higham, Accuracy and
  /// Stability of Numerical Algorithms, 2nd ed., section 8.2). Worst of the chunks looked at; 1
  /// where nothing couples. About 4 for unit keys in random directions, 2C for equal keys with beta
  /// = 1, 2C^2 for equal keys with beta = 2 (C tokens in a chunk).
  double chunk_solve = 1;
  /// Tokens whose rounding errors are still in the state together: the largest value of
  /// m <- exp(2 g_t) m + 1 over a sequence. T without decay. Errors of independent roundings grow
  /// with its square root.
  double memory_tokens = 1;
  /// Largest exp(g_t) G_t over the tokens, G_t the sum of |g| since the chunk began, t included.
  /// Forms that keep G in float32 have it wrong by G unit roundoffs, hence every decay exp(G_j -
  /// G_i) by as much, relatively; exp(g_t) is the largest of them that is not exactly 1. Each |g|
  /// counts up to 104 (exp(-104) is zero in float32, and such forms may clamp there).
  double chunk_log_decay = 0;
};

/// Chunks of Problem::chunk tokens (64 if 0). The gates of every pair are read; of the triangular
/// systems at most 256, evenly spread over the pairs and their chunks. `wide` supplies the keys of
/// a gated_delta_layer (its conv_output). causal_conv1d: the defaults.
Conditioning measure_conditioning(const Case& inputs, const WideOutputs<double>& wide,
                                  const EvaluationOptions& options = {});

}  // namespace gdn::reference
