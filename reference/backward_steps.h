// Gradients of the steps of a layer on numbers that its other steps made, in the wide scalar. An operation
// of its own of each reads the same from its operands (operations/NAME.cpp). Whatever a step hands on has
// terms beside it (gradients.h), which go through the next step as independent errors do.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/gradients.h"
#include "reference/recurrence.h"

namespace gdn::reference {

/// A gradient that another step made, element by element; without terms it is exact.
template <typename Element, typename Scalar>
struct GivenGradient {
  const Element* values = nullptr;
  const Scalar* terms = nullptr;

  /// The squares that stand in the terms beside the value's own.
  Scalar squares(std::int64_t at) const {
    if (terms == nullptr) return 0;
    const Scalar value = Scalar(values[at]), more = terms[at] * terms[at] - value * value;
    return more < Scalar(0) ? Scalar(0) : more;
  }
};

/// What a recurrence's gradients are made of, where it is a step of something.
template <typename Element, typename Scalar>
struct RecurrenceStep {
  QkvSource<Element> source;
  bool normalize_qk = false;
  GivenGradient<Element, Scalar> d_output;  ///< [T, Hv, Dv]
};

/// "output" and "output_terms", [T, Hv, Dv]: what the recurrence made, and the size of the products that
/// each element sums. Of the key heads of the pairs; NaN elsewhere, zeros of padding.
template <typename Element, typename Scalar>
Arrays<Scalar> recurrence_outputs(const Case& inputs, const RecurrenceStep<Element, Scalar>& step,
                                  const EvaluationOptions& options);

/// As gated_delta_backward writes it, and "d_initial_state_terms".
template <typename Element, typename Scalar>
Arrays<Scalar> recurrence_gradients(const Case& inputs, const RecurrenceStep<Element, Scalar>& step,
                                    const EvaluationOptions& options);

/// As causal_conv1d_backward writes it, of "conv_output"'s gradient, [T, channels]. Of channels whose
/// gradient is NaN all is NaN.
template <typename Scalar>
Arrays<Scalar> convolution_gradients(const Case& inputs,
                                     const GivenGradient<Scalar, Scalar>& d_output,
                                     const EvaluationOptions& options);

/// As gated_rms_norm_backward writes it, of rows x, whose errors are as large as `x_terms`; z, norm_weight
/// and d_output are operands.
template <typename Scalar>
Arrays<Scalar> norm_gradients(const Case& inputs, const Scalar* x, const Scalar* x_terms,
                              const EvaluationOptions& options);

}  // namespace gdn::reference
