// Where the error of a set of outputs sits: which outputs, which sequences and heads, which tokens,
// which place in a chunk, which rows and columns of output and state; and how large it is there.
//
// A token (or a column of the output, a row or column of the state, an element) counts as wrong
// where its error, relative to the root mean square over its sequence and head, is above the limit
// that the whole is judged by (reference/errors.h), or where anything is not finite.
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

/// An output with units (Judging::per) above their limit, whatever the operation; the unit
/// that is furthest above it is looked into.
struct WrongOutput {
  const Operand* operand = nullptr;
  std::int64_t wrong_units = 0;
  std::int64_t checked_units = 0;
  WrongSet sequences;  ///< of the wrong units; total 0 where the output is judged as a tensor
  WrongSet heads;      ///< total 0 where it is not judged by head
  /// Error over limit of the worst unit; infinite where it is not finite.
  double excess = 0;

  reference::UnitError worst;
  std::int64_t length = 0;  ///< tokens of the worst unit; 0 where the output is not cut by tokens
  WrongSet tokens;
  /// Of the elements of a token; of the whole unit where it is not cut by tokens.
  WrongSet elements;
  std::vector<double> chunk_errors;  ///< as in PairAnatomy; empty where not cut by tokens
  /// The element that is furthest off, or the first that is not finite.
  std::int64_t token = 0;
  std::int64_t element = 0;
  std::string furthest;  ///< the same as an index into its array: "[78, 1, 5] of [T, Hv, Dv]"
  double actual = 0;
  double expected = 0;

  const std::string& name() const { return operand->output_name(); }
  bool by_tokens() const { return length > 0; }
  /// "sequence 1, head 2"; empty where the output is judged as a tensor.
  std::string place() const;
};

struct Anatomy {
  /// The output whose tokens and columns are looked at, and the state its sequences leave; null
  /// where the operation has none.
  const reference::OutputErrors* main_output() const;
  const reference::OutputErrors* state_output() const;

  std::int64_t chunk = 0;  ///< tokens per chunk that chunk_errors are counted in
  reference::ErrorReport report;
  std::string violation;             ///< one line; empty: within the limits
  std::vector<WrongOutput> outputs;  ///< every output above its limit, the furthest above it first
  std::vector<PairAnatomy> wrong;  ///< pairs with anything wrong, by error over limit of the output
  WrongSet sequences;
  WrongSet heads;
};

/// `chunk`: tokens per chunk of the implementation, 0 if it has none or nobody knows.
Anatomy dissect(const CheckedReference& reference, const Outputs& outputs, std::int64_t chunk);

}  // namespace gdn
