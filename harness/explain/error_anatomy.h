// Where the error of a set of outputs sits: which sequences and heads, which tokens, which place in
// a chunk, which rows and columns of output and state; and how large it is there.
//
// A token (or a column of the output, a row or column of the state) counts as wrong where its
// error, relative to the root mean square over its sequence and head, is above the limit that the
// whole is judged by (reference/errors.h), or where anything is not finite.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/verify/checked_reference.h"

namespace gdn {

/// Which of 0..total-1 are wrong.
struct WrongSet {
  std::int64_t total = 0;
  std::vector<std::int64_t> members;  ///< ascending
  bool empty() const { return members.empty(); }
  bool whole() const { return static_cast<std::int64_t>(members.size()) == total; }
  /// "3 .. 17, 20 (16 of 24)".
  std::string to_string() const;
};

/// One unit of the operation's main output: a (sequence, value head), or a sequence.
struct PairAnatomy {
  reference::UnitError output;
  /// Of the state it leaves in a pool; zeros where the operation has none.
  reference::UnitError state;
  std::int64_t length = 0;  ///< tokens of the sequence
  WrongSet tokens;
  WrongSet output_columns;
  WrongSet state_rows;     ///< key dims, of a state that is a matrix per head
  WrongSet state_columns;  ///< value dims
  bool all_zero = false;   ///< every wrong token's output is zero
  /// Relative L2 error of each chunk's outputs, against the root mean square of the sequence.
  std::vector<double> chunk_errors;

  bool output_wrong() const { return !tokens.empty(); }
  bool state_wrong() const { return !state_rows.empty(); }
};

struct Anatomy {
  /// The output whose tokens and columns are looked at, and the state its sequences leave; null
  /// where the operation has none.
  const reference::OutputErrors* main_output() const;
  const reference::OutputErrors* state_output() const;

  std::int64_t chunk = 0;  ///< tokens per chunk that chunk_errors are counted in
  reference::ErrorReport report;
  std::string violation;           ///< one line; empty: within the limits
  std::vector<PairAnatomy> wrong;  ///< pairs with anything wrong, the largest output error first
  WrongSet sequences;
  WrongSet heads;
};

/// `chunk`: tokens per chunk of the implementation, 0 if it has none or nobody knows.
Anatomy dissect(const CheckedReference& reference, const Outputs& outputs, std::int64_t chunk);

}  // namespace gdn
