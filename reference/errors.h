// Judging numbers (contract section 4): errors per (sequence, value head), the rounding floor beside
// each, non-finite values counted first and never skipped.
//
//   relative L2 of x against r     ||x - r||_2 / ||r||_2      (0 if both are zero, +inf if only r is)
//   rounding floor                 the same metric for r rounded to the stored dtype
//   scaled maximum                 max |x - r| / max |r|
//
// All comparisons are of the form !(error <= bound), so that NaN fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interface/case.h"
#include "reference/reference.h"

namespace gdn::reference {

struct TensorError {
  double relative_l2 = 0;
  double floor = 0;           ///< relative L2 of the rounded reference
  double scaled_max = 0;
  std::int64_t non_finite = 0;  ///< NaN or Inf where the reference is finite
  /// relative_l2 / max(floor, unit roundoff of the dtype): "1.8x the floor".
  double floor_ratio = 0;
};

struct HeadError {
  SequenceHead where;
  TensorError output;
  TensorError state;
};

/// Error in a window of token positions, worst over the checked pairs: error by position.
struct PositionError {
  std::int64_t first_token = 0;  ///< within the sequence
  std::int64_t num_tokens = 0;
  double relative_l2 = 0;
};

struct ErrorReport {
  std::vector<HeadError> heads;  ///< every pair checked (for causal_conv1d: one per sequence, head 0)
  std::vector<PositionError> positions;
  HeadError worst_output;  ///< largest output.relative_l2 (non-finite counts as the largest)
  HeadError worst_state;
  TensorError conv_output;  ///< causal_conv1d and layers that expose it; whole tensor
  TensorError conv_state;
  std::int64_t checked_pairs = 0;
  std::int64_t total_pairs = 0;
  std::int64_t non_finite = 0;         ///< over everything checked
  std::int64_t untouched_changed = 0;  ///< elements of pool rows or padding that must be
                                       ///< bit-identical to the input and are not
  std::int64_t padding_nonzero = 0;    ///< outputs of slot -1 sequences that are not +-0
};

/// Compares `outputs` with the reference on the pairs the reference holds.
ErrorReport compare(const Case& inputs, const WideOutputs<double>& reference,
                    const Outputs& outputs, const EvaluationOptions& options = {});

/// Absolute limits on relative L2, per token dtype (and state dtype, output dtype): a result above
/// them fails whatever its baseline says.
struct ErrorLimits {
  double output = 0;
  double state = 0;
};
ErrorLimits error_limits(const Problem& problem);

/// Empty if the report is within the limits; else one line naming tensor, sequence, head, error and
/// limit.
std::string first_violation(const ErrorReport& report, const ErrorLimits& limits);

}  // namespace gdn::reference
