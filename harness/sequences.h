// Parts of a batch: some of its sequences as a case of their own, and every sequence cut in two
// calls that the state joins. What verification needs to compare a batch with itself.
#pragma once

#include <cstdint>
#include <vector>

#include "interface/case.h"

namespace gdn {

/// The sequences `numbers` of a batch, in that order and as often as they are named, each with its
/// own copy of its state, in a pool of one row per sequence (slots=identity). They must own a slot.
Case take_sequences(const Case& batch, const std::vector<std::int64_t>& numbers);

/// What the call wrote for one sequence: its tokens' outputs, and the rows of its slot.
Outputs sequence_outputs(const Case& batch, const Outputs& outputs, std::int64_t number);

/// The first half (rounded down) of every sequence; a final state is wanted.
Case first_halves(const Case& whole);
/// The rest of every sequence, from the states the first call left. Slots that call did not write
/// start as the first call would have found them (zeros where there is no initial state).
Case second_halves(const Case& whole, const Outputs& first);
/// Outputs of both calls as if one had made them. Rows that one call would not have written are
/// those of `whole`.
Outputs joined(const Case& whole, const Outputs& first, const Outputs& second);

}  // namespace gdn
