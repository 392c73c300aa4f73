// Judging numbers (docs/contract.md, section 4): errors per (sequence, value head), the rounding
// floor beside each, non-finite values counted first and never skipped.
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
// Of integers with scales (Operand::scaled) x is the product of the two, and r the value that it stands for. A right
// x is off by the error of what was rounded, and by half a step of its channel. So the relative L2 may be as large as
// the output's limit and all half steps together; and what every element is off by beyond half a step, taken as one
// relative L2, may be as large as the limit: there an element shows that is a whole step off. The largest element
// of a channel is 127, or its scale is another than that of the definition, whatever the products are.
//
// Values whose reference overflows the stored dtype must be that infinity; anything else there
// counts as non-finite. All comparisons are of the form !(error <= bound), so that NaN fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "interface/batch_part.h"
#include "reference/conditioning.h"
#include "reference/limits.h"
#include "reference/reference.h"

namespace gdn::reference {

struct TensorError {
  double relative_l2 = 0;
  double floor = 0;  ///< relative L2 of the rounded reference
  double scaled_max = 0;
  /// NaN or Inf where the rounded reference is finite, or the reverse.
  std::int64_t non_finite = 0;
  double floor_ratio = 0;  ///< relative_l2 / max(floor, unit roundoff of the dtype / 4)

  /// Of integers with scales, relative L2: half a step of every element; and what each is off by beyond that.
  double half_steps = 0;
  double beyond_half_steps = 0;
  /// Channels whose largest element is not the largest integer, though their scale is not 0; or is not 0 though it is.
  std::int64_t unfilled_channels = 0;
};

/// What one unit (Judging::per) of an output is wrong by.
struct UnitError {
  /// The sequence, and its value head where the output is judged by head; of an output judged as a
  /// tensor the first sequence.
  BatchPart where;
  TensorError error;       ///< zeros where nothing is written (no tokens, slot -1)
  double readout = 1;      ///< Conditioning::readouts of this pair, of outputs judged by head
  double norm_growth = 1;  ///< Conditioning::norm_growths, likewise
};

/// Error in a window of token positions, worst over the checked units: error by position.
struct PositionError {
  std::int64_t first_token = 0;  ///< within the sequence
  /// Of the window; the last one may be cut short by a sequence's end.
  std::int64_t num_tokens = 0;
  double relative_l2 = 0;
};

struct OutputErrors {
  const Operand* operand = nullptr;
  /// The stored type is no finer than that of the tokens, so that its rounding is what errors are
  /// measured in; else the arithmetic's errors are many roundings, and the limit says more.
  bool is_measured_in_floors = true;
  std::vector<UnitError> units;          ///< every unit checked
  std::vector<PositionError> positions;  ///< at most 32 windows, of at least 64 tokens each
  /// The largest relative_l2 (non-finite counts as the largest); the first of equals.
  const UnitError& worst() const { return units[worst_unit]; }
  std::size_t worst_unit = 0;

  const std::string& name() const { return operand->output_name(); }
};

struct ErrorReport {
  std::vector<OutputErrors> outputs;  ///< of every output that was given, in the schema's order
  Conditioning conditioning;          ///< of the checked pairs, measured from the inputs
  ErrorLimits limits;  ///< error_limits(problem, conditioning): what to judge this report by
  /// Units of the output that has most of them: those checked, and all there are.
  std::int64_t checked_pairs = 0;
  std::int64_t total_pairs = 0;
  std::int64_t non_finite = 0;  ///< over everything checked
  /// Reference values that are themselves not finite: the problem overflows float64, or a pair was
  /// never evaluated. Nothing can be judged against them, so the report is a violation.
  std::int64_t reference_non_finite = 0;
  /// Elements of pool rows or padding that must be bit-identical to the input and are not.
  std::int64_t untouched_changed = 0;
  std::int64_t padding_nonzero = 0;  ///< outputs of slot -1 sequences that are not +-0

  /// Null where the output was not given.
  const OutputErrors* find(std::string_view output) const;
  /// Throws Error(bad_input).
  const OutputErrors& operator[](std::string_view output) const;
};

/// Compares `outputs` with the reference on the pairs the reference holds: `options` must be the
/// one it was evaluated with. Throws Error(bad_input) naming an output array of the wrong size, or
/// one that is missing and neither HandedOver::on_request nor a pool that is not written.
///
/// Must be bit-identical to the input: every pool row no sequence writes, padding after rows, and
/// the whole pool if it is not written (it may then be missing); in place or not (a separate
/// destination starts as a copy of the input there).
ErrorReport compare(const Case& inputs, const Arrays<double>& reference, const Outputs& outputs,
                    const EvaluationOptions& options = {});
/// The same with what measure_conditioning(inputs, reference, options) gave before: it depends on
/// no outputs, and is as much work as the comparison itself.
ErrorReport compare(const Case& inputs, const Arrays<double>& reference, const Outputs& outputs,
                    const Conditioning& conditioning, const EvaluationOptions& options);

/// What the unit's relative L2 may be: its output's limit, as wide as its own readout makes it; the
/// rounding floor itself where the output is a copy; four floors where the stored type cannot
/// represent the reference to the limit at all (values near its underflow); of integers with scales half a
/// step of each element more.
double allowed(const OutputErrors& output, const UnitError& unit, const ErrorLimits& limits);
/// How much of that: more than 1 is too much. Infinity where a value is not finite, or a channel not filled.
double of_limit(const OutputErrors& output, const UnitError& unit, const ErrorLimits& limits);
/// Whether it is within that, and finite; and of integers with scales, whether their channels are filled and no more is
/// off by more than half a step than the limit allows.
bool within(const OutputErrors& output, const UnitError& unit, const ErrorLimits& limits);

/// Empty if the report is within the limits (commonly report.limits); else one line naming the
/// output, the sequence, head, error and limit of the unit that is furthest above what is allowed.
std::string violation(const ErrorReport& report, const ErrorLimits& limits);

}  // namespace gdn::reference
