// One head of one sequence, run by a form with a planted fault.
#pragma once

#include <Eigen/Core>

#include "harness/tests/planted_faults/faulty_implementation.h"

namespace gdn::testing {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
inline constexpr std::int64_t kFaultyChunk = 16;

struct FaultyHead {
  Matrix query, key, value;   // [L, Dk], [L, Dk], [L, Dv]
  Eigen::VectorXd log_decay;  // [L]
  Eigen::VectorXd beta;       // [L]
  Matrix state;               // [Dk, Dv]
  Matrix output;              // [L, Dv]
  double scale = 1;
  /// Keys and values of the tokens behind the sequence, up to a whole chunk: only a fault reads
  /// them.
  Matrix key_behind, value_behind;
};

/// Chunkwise or token by token, as the fault's form is.
void run_faulty_head(FaultyHead& head, Fault fault);

}  // namespace gdn::testing
