// Batches made of a batch: some of its sequences as a case of their own, every sequence cut in two
// calls that the state joins, other lengths, other slots. What verification needs to compare a
// batch with itself.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "interface/case.h"

namespace gdn {

/// The sequences `numbers` of a batch, in that order and as often as they are named, each with its
/// own copy of its state, in a pool of one row per sequence (slots=identity). They must own a slot.
Case take_sequences(const Case& batch, const std::vector<std::int64_t>& numbers);

/// A part of an array, where it lies: `count` strips of `length` values, `stride` values apart.
struct Strips {
  const float* data = nullptr;
  std::int64_t count = 0;
  std::int64_t length = 0;
  std::int64_t stride = 0;
};
/// A part of each array of an Outputs, which must outlive it.
struct OutputsView {
  Strips output;
  Strips state_pool;
  Strips conv_output;
  Strips conv_state;
};
OutputsView whole_outputs(const Outputs& outputs);
/// What the call wrote for one sequence: its tokens' outputs, and the rows of its slot.
OutputsView sequence_outputs(const Case& batch, const Outputs& outputs, std::int64_t number);

/// How many of a sequence's tokens the first of two calls takes, by its length.
using Cut = std::function<std::int64_t(std::int64_t length)>;
/// Half of every sequence, rounded down.
std::int64_t in_halves(std::int64_t length);
/// The first `tokens` tokens of every sequence, or all it has.
Cut after(std::int64_t tokens);

/// The tokens before the cut of every sequence; a final state is wanted.
Case first_part(const Case& whole, const Cut& cut);
/// The rest of every sequence, from the states the first call left. Slots that call did not write
/// start as the first call would have found them (zeros where there is no initial state).
Case second_part(const Case& whole, const Cut& cut, const Outputs& first);
/// Outputs of both calls as if one had made them. Rows that one call would not have written are
/// those of `whole`.
Outputs joined(const Case& whole, const Cut& cut, const Outputs& first, const Outputs& second);

/// As many sequences over the first tokens of the same arrays, cut elsewhere: the lengths in
/// reverse order, the longest a third shorter. Slots, states and everything else as they are.
Case with_other_lengths(const Case& batch);
/// The same sequences in other rows of a pool: rows in reverse order; slots=identity becomes
/// permuted, with three rows more.
Case with_other_slots(const Case& batch);
/// The same batch with NaN for every token, gate, state and window of the odd sequences. Not a
/// valid case: only for PlannedCase::refill.
Case with_poisoned_odd_sequences(const Case& batch);
/// Token `t` of every sequence (length 1 each) from `states`; sequences that are over have length
/// 0. A final state is wanted.
Case single_token(const Case& batch, std::int64_t t, const Outputs* states);
/// What the call of single_token(whole, t) wrote, in its place in the outputs of the whole; a state
/// once the sequence is over. conv_layout=channels.
void place_token(const Case& whole, std::int64_t t, const Outputs& step, Outputs* outputs);

}  // namespace gdn
