// Batches made of a batch: some of its sequences as a case of their own, every sequence cut in two
// calls that the state joins, other lengths, other slots. What verification needs to compare a
// batch with itself. Each operand goes the way its schema says it is cut.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "interface/case.h"

namespace gdn {

/// The sequences `numbers` of a batch, in that order and as often as they are named, each with its
/// own copy of its rows, in pools of one row per sequence (slots=identity). They must own a slot.
Case take_sequences(const Case& batch, const std::vector<std::int64_t>& numbers);

/// "output differs at [78, 1, 5] of [T, Hv, Dv] (0.5 then 0.25)"; empty if both hold the same bits.
std::string first_difference(const Problem& problem, const Outputs& a, const Outputs& b);
/// The same of outputs whose problem is not at hand: "output differs at flat index 17".
std::string first_difference(const Outputs& a, const Outputs& b);
/// The same of what two calls wrote for one sequence each: its tokens' outputs, its rows of pools, its
/// entries. The place is that in `a`. What is over the whole batch (a sum) is not looked at.
std::string first_difference_of_sequence(const Case& a, const Outputs& of_a, std::int64_t in_a,
                                         const Case& b, const Outputs& of_b, std::int64_t in_b);

/// How many of a sequence's tokens the first of two calls takes, by its length.
using CutAt = std::function<std::int64_t(std::int64_t length)>;
/// Half of every sequence, rounded down.
std::int64_t in_halves(std::int64_t length);
/// The first `tokens` tokens of every sequence, or all it has.
CutAt after(std::int64_t tokens);

/// Whether a sequence has tokens before the cut and behind it. Where a call leaves what is carried
/// after some of its tokens (OperationSchema::carried_tokens), a sequence is cut behind these at the
/// latest.
bool cuts_a_sequence(const Case& whole, const CutAt& cut);

/// Whether anything is carried from call to call.
bool carries_state(const Problem& problem);
/// Whether the problem can be called token by token: it is carried forward, in place alone, and its
/// outputs are tokens' (single_token, place_token).
bool is_carried_token_by_token(const Problem& problem);

/// What the first of two calls takes of every sequence: the tokens before the cut, or those behind it
/// where the operation carries backward. What is carried is written.
Case first_part(const Case& whole, const CutAt& cut);
/// The rest of every sequence, from what the first call left. What that call did not write starts as
/// the first call would have found it (zeros where it would not have read it).
Case second_part(const Case& whole, const CutAt& cut, const Outputs& first);
/// Outputs of both calls as if one had made them. Rows that one call would not have written are
/// those of `whole`, or NaN where they are no input.
Outputs joined(const Case& whole, const CutAt& cut, const Outputs& first, const Outputs& second);

/// The first sequence behind all others, each with its tokens and slots, and the longest a third
/// shorter; of a single token nothing is cut off. Pools and what belongs to no sequence stay as they are, so that
/// the same plan can take it.
Case with_other_lengths(const Case& batch);
/// The same sequences in other rows of the pools: rows in reverse order; slots=identity becomes
/// permuted, with three rows more.
Case with_other_slots(const Case& batch);
/// The same batch with NaN for every token and row of the odd sequences. Not a valid case: only for
/// PlannedCase::refill.
Case with_poisoned_odd_sequences(const Case& batch);
/// Token `t` of every sequence (length 1 each) from `states`; sequences that are over have length
/// 0. What is carried is written.
Case single_token(const Case& batch, std::int64_t t, const Outputs* states);
/// What the call of single_token(whole, t) wrote, in its place in the outputs of the whole; a row
/// of a pool once its sequence is over.
void place_token(const Case& whole, std::int64_t t, const Outputs& step, Outputs* outputs);

}  // namespace gdn
