// Judging numbers (contract section 4): errors per (sequence, value head), the rounding floor
// beside each, non-finite values counted first and never skipped.
//
//   relative L2 of x against r   ||x - r||_2 / max(||r||_2, sqrt(n) 2^-102); 0 if both are zero,
//                                +inf if only r is, +inf if anything is not finite. 2^-102 is the
//                                smallest magnitude at which float32 keeps its full relative
//                                precision in every product (smallest normal / unit roundoff):
//                                below it, underflow is judged as an absolute error.
//   rounding floor               the same metric for r rounded to the stored dtype
//   floor ratio                  relative L2 / max(floor, unit roundoff / 4): "1.8x the floor". A
//                                full mantissa gives a floor of about 0.4 unit roundoffs; the
//                                second term stands in where the reference happens to be (nearly)
//                                representable
//   scaled maximum               max |x - r| / max |r|
//
// Values whose reference overflows the stored dtype must be that infinity; anything else there
// counts as non-finite. All comparisons are of the form !(error <= bound), so that NaN fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "interface/case.h"
#include "reference/conditioning.h"
#include "reference/reference.h"

namespace gdn::reference {

struct TensorError {
  double relative_l2 = 0;
  double floor = 0;  ///< relative L2 of the rounded reference
  double scaled_max = 0;
  /// NaN or Inf where the rounded reference is finite, or the reverse.
  std::int64_t non_finite = 0;
  double floor_ratio = 0;  ///< relative_l2 / max(floor, unit roundoff of the dtype / 4)
};

struct HeadError {
  SequenceHead where;
  TensorError output;
  /// Zeros where no final state is written (final_state = 0, length 0, slot -1).
  TensorError state;
  double readout = 1;  ///< Conditioning::readouts of this pair
};

/// Error in a window of token positions, worst over the checked pairs: error by position.
struct PositionError {
  std::int64_t first_token = 0;  ///< within the sequence
  /// Of the window; the last one may be cut short by a sequence's end.
  std::int64_t num_tokens = 0;
  double relative_l2 = 0;
};

/// Absolute limits on relative L2: a result above them fails whatever its baseline says.
struct ErrorLimits {
  double output = 0;  ///< of a pair whose readout does not cancel
  double state = 0;
  double conv_output = 0;
  double readout = 0;  ///< added to it (as squares) for each unit of sqrt(R^2 - 1) of a readout R
  /// Of the output of one pair: as wide as its own readout makes it.
  double output_of(const HeadError& pair) const;
};

/// Per token, state and output dtype, and as wide as the problem's conditioning makes them; the
/// default is a well-conditioned problem. A readout that cancels widens the limit of its own pair
/// alone. Where the numbers come from: error_limits.cpp.
ErrorLimits error_limits(const Problem& problem, const Conditioning& conditioning = {});

struct ErrorReport {
  /// Every pair checked (for causal_conv1d: one per sequence, head 0).
  std::vector<HeadError> heads;
  std::vector<PositionError> positions;  ///< at most 32 windows, of at least 64 tokens each
  HeadError worst_output;  ///< largest output.relative_l2 (non-finite counts as the largest)
  HeadError worst_state;
  TensorError conv_output;    ///< causal_conv1d and layers that expose it; whole tensor
  TensorError conv_state;     ///< every window a sequence owns
  Conditioning conditioning;  ///< of the checked pairs, measured from the inputs
  ErrorLimits limits;         ///< error_limits(problem, conditioning): what to judge this report by
  std::int64_t checked_pairs = 0;
  std::int64_t total_pairs = 0;
  std::int64_t non_finite = 0;  ///< over everything checked
  /// Reference values that are themselves not finite: the problem overflows float64, or a pair was
  /// never evaluated. Nothing can be judged against them, so the report is a violation.
  std::int64_t reference_non_finite = 0;
  /// Elements of pool rows or padding that must be bit-identical to the input and are not.
  std::int64_t untouched_changed = 0;
  std::int64_t padding_nonzero = 0;  ///< outputs of slot -1 sequences that are not +-0
};

/// Compares `outputs` with the reference on the pairs the reference holds: `options` must be the
/// one it was evaluated with. Throws Error(bad_input) naming an output array of the wrong size.
///
/// Must be bit-identical to the input: every state pool row no sequence of at least one token owns,
/// padding after rows, and the whole pool if final_state = 0 (outputs.state_pool may then be
/// empty); and convolution windows of rows no sequence owns, in place or not (a separate
/// destination starts as a copy of the input there).
ErrorReport compare(const Case& inputs, const WideOutputs<double>& reference,
                    const Outputs& outputs, const EvaluationOptions& options = {});
/// The same with what measure_conditioning(inputs, reference, options) gave before: it depends on
/// no outputs, and is as much work as the comparison itself.
ErrorReport compare(const Case& inputs, const WideOutputs<double>& reference,
                    const Outputs& outputs, const Conditioning& conditioning,
                    const EvaluationOptions& options);

/// Whether `error` is within `limit`, or within four rounding floors where the stored dtype cannot
/// represent the reference to `limit` at all (values near its underflow).
bool within(const TensorError& error, double limit);

/// Empty if the report is within the limits (commonly report.limits); else one line naming tensor,
/// sequence, head, error and limit. Convolution windows are copies: their limit is the rounding
/// floor itself.
std::string first_violation(const ErrorReport& report, const ErrorLimits& limits);

}  // namespace gdn::reference
