// The gradients of one head of one sequence, run by a form with a planted fault.
#pragma once

#include <Eigen/Core>

#include "harness/tests/planted_faults/faulty_head.h"

namespace gdn::testing {

struct GradientHead {
  Matrix query, key;          // [L, Dk], as the recurrence takes them
  Matrix value, d_output;     // [L, Dv]
  Eigen::VectorXd log_decay;  // [L]
  Eigen::VectorXd beta;       // [L]
  Matrix state;               // [Dk, Dv] before the first token
  Matrix d_state;             // [Dk, Dv] of the final state; afterwards of the initial one
  double scale = 1;

  Matrix d_query, d_key, d_value;       // shaped as query, key and value
  Eigen::VectorXd d_log_decay, d_beta;  // [L]

  /// [L] by the decay itself, where gates are decays; else empty.
  Eigen::VectorXd d_decay;

  /// What the arrays hold behind the sequence, up to a whole chunk: only a fault reads it.
  Matrix query_behind, d_output_behind;
  Eigen::VectorXd log_decay_behind;
  /// Memory for the decays of a chunk that nobody has written to: only a fault reads it.
  const float* unwritten = nullptr;
};

/// Chunks of kFaultyChunk tokens, from the last to the first; d_decay token by token.
void run_faulty_gradient_head(GradientHead& head, Fault fault);

}  // namespace gdn::testing
