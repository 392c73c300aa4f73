// Chain: an operation that is several others, one after the other, described as data: its steps, each
// a problem of its own, the names under which it takes their operands, and what one step hands on to
// a later one. A backend's chain is then its own kernels and an element type
// (composed/chain_implementation.h); who fuses steps into one kernel needs none of this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "interface/operation.h"
#include "interface/problem.h"

namespace gdn {

struct ChainStep {
  Operation operation;
  /// The step as a problem of its own, where `handed_on` is the element type in which the steps
  /// before it hand on.
  Problem (*problem)(const Problem& whole, DType handed_on);
  /// Whether the whole has this step, and the key of the field that asks for it; null: always.
  bool (*present)(const Problem& whole) = nullptr;
  std::string asked_for_by = {};
  /// Operands that the whole has under another name.
  struct Renamed {
    std::string of_step;
    std::string of_whole;
  };
  std::vector<Renamed> renamed = {};
};

/// An array that one step writes and later ones read: the tokens of an operand, outermost.
struct HandedOn {
  std::size_t writer = 0;
  /// The writer's operand that holds it in the token dtype, and in float32; empty where it has none.
  std::string in_token_dtype;
  std::string in_float32;
  /// The operand of the whole that holds the same in the token dtype, for callers who ask; empty: none.
  std::string on_request = {};
  struct Reader {
    std::size_t step = 0;
    std::string operand;
    /// Elements of a token before those of the operand.
    std::int64_t (*first_element)(const Problem& whole) = nullptr;
  };
  std::vector<Reader> readers;
};

struct Chain {
  Operation operation;
  std::vector<ChainStep> steps;
  std::vector<HandedOn> handed_on;
};

/// A step as a problem of its own: of the fields that `step` looks at, those that the whole looks at
/// too are the whole's, the rest at their defaults.
Problem step_of(const Problem& whole, Operation step);

bool is_present(const ChainStep& step, const Problem& whole);
/// Whether any step that reads it is there.
bool is_present(const HandedOn& array, const Chain& chain, const Problem& whole);
/// The operand of the whole that the step's operand is.
const std::string& name_in_whole(const ChainStep& step, const std::string& operand);

}  // namespace gdn
