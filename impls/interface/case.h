// Case: one problem with its input values on the host, by the names of its operation's operands; and
// the outputs any implementation made of it. All values are float32 and already rounded to the
// operand's element type, so the reference and a kernel see exactly the same numbers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "interface/arrays.h"
#include "interface/problem.h"

namespace gdn {

struct Case {
  Problem problem;
  // ---- the batch, which every operation has
  std::vector<std::int64_t> sequence_offsets;  ///< [N + 1], exclusive prefix sums
  std::vector<std::int64_t> slot_index;        ///< [N] or empty (identity); -1 = padding
  /// Indices of the operation's own, by operand name.
  Arrays<std::int64_t> other_indices;

  /// The other operands of the problem, by name. Of an operand in place the values before the call.
  /// Pools are [pool rows, row_stride()]: a row's padding lies behind it. A pool that is not read is
  /// there all the same, filled with NaN in generated cases.
  Arrays<float> arrays;

  std::vector<float>& operator[](std::string_view operand) { return arrays[operand]; }
  const std::vector<float>& operator[](std::string_view operand) const { return arrays[operand]; }

  std::int64_t first_token(std::int64_t sequence) const {
    return sequence_offsets[static_cast<std::size_t>(sequence)];
  }
  std::int64_t length(std::int64_t sequence) const {
    return first_token(sequence + 1) - first_token(sequence);
  }
  /// After how many of its tokens the call leaves what is carried (OperationSchema::carried_tokens).
  std::int64_t carried_tokens(std::int64_t sequence) const;
  /// The sequence's row of every pool, which it reads; -1: padding.
  std::int64_t slot(std::int64_t sequence) const {
    return slot_index.empty() ? sequence : slot_index[static_cast<std::size_t>(sequence)];
  }
  /// The row that it writes: the same, or what output_slot_index says; negative: none.
  std::int64_t output_slot(std::int64_t sequence) const;
  /// The values of an index operand, by its name.
  std::vector<std::int64_t>& indices(const Operand& operand);
  const std::vector<std::int64_t>& indices(const Operand& operand) const;
};

/// What an operation writes, widened to float32 (exact for every output type), by the operands'
/// names after the call; pools whole, the rows that no sequence owns included.
using Outputs = Arrays<float>;

/// Throws Error(bad_input), naming the array, the offending index and value, and what was expected:
/// arrays that are no operand or are missing, their sizes, offsets monotone and ending at T, slots
/// distinct and in range (or -1), each operand's ValueRule, no NaN anywhere except in a pool that is
/// not read, no infinity except where the rule allows it.
void validate(const Case& value);

}  // namespace gdn
