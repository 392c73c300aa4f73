// Where the parts of a batch lie in an operand's array: one sequence, one value or key head of it, a
// range of its tokens.
#pragma once

#include <cstdint>

#include "interface/case.h"

namespace gdn {

/// A sequence, or one head of it. Of an array that has the other kind of heads, a value head means the
/// key head that it reads, and a key head all the value heads that read it.
struct BatchPart {
  static constexpr std::int64_t kEveryHead = -1;
  std::int64_t sequence = 0;
  std::int64_t head = kEveryHead;
  Heads of = Heads::value;
  bool operator==(const BatchPart&) const = default;
};

/// Tokens begin .. begin + count - 1, counted from their sequence's start.
struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// `count` strips of `length` elements, `stride` elements from one to the next, the first at `first`.
struct Strips {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t length = 0;
  std::int64_t stride = 0;

  std::int64_t elements() const { return count * length; }
  /// body(index) for every element.
  template <typename Body>
  void for_each(const Body& body) const {
    for (std::int64_t strip = 0; strip < count; ++strip) {
      const std::int64_t begin = first + strip * stride;
      for (std::int64_t i = begin; i < begin + length; ++i) body(i);
    }
  }
};

/// Whether the call writes the sequence's row of the operand, a pool.
bool writes_row(const Operand& operand, const Case& batch, std::int64_t sequence);

/// What of the operand's array belongs to the part: its tokens, its row of a pool (none if the
/// sequence has no slot), its entry of an array per sequence; all of an array that is not cut.
Strips strips_of(const Operand& operand, const Case& batch, const BatchPart& part);
/// The same of what the call writes: another row of a pool where the case says so (none if it writes none).
Strips written_strips_of(const Operand& operand, const Case& batch, const BatchPart& part);
/// The same of some of the sequence's tokens; the operand is cut by tokens.
Strips strips_of(const Operand& operand, const Case& batch, const BatchPart& part,
                 const TokenRange& tokens);

}  // namespace gdn
