// The axes of a case's arrays, ours and a convention's, and the numbers behind them.
#pragma once

#include "harness/conventions/axes.h"
#include "interface/case.h"

namespace gdn::conventions {

/// `form` as the case's batch has it: with offsets where `with_offsets`.
inline Axes in_batch(const Axes& form, bool with_offsets) {
  return with_offsets ? ragged(form) : form;
}

/// Our axes, tokens counted as the convention counts them ([T] or [N, time]).
Axes our_tokens(bool with_offsets, const Axes& inner);
Axes our_states(StateLayout layout);
Axes our_channels(ConvLayout layout, bool with_offsets);
inline const Axes kOurWindows = {Axis::row, Axis::channels, Axis::window};

/// Whether a batch of these lengths is written with offsets.
bool with_offsets(const Batch& batch, const Problem& problem);

/// Everything but Axis::row and Axis::window.
Extents extents_of(const Problem& problem);

}  // namespace gdn::conventions
