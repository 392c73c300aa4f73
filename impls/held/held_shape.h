// How a held tensor's dimensions stand to its operand's: several of them may count what is one dimension
// there, as [B, L] counts the tokens T of a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "held/held_plan.h"

namespace gdn {

/// A held tensor laid against its operand, whatever its element type.
struct HeldShape {
  std::vector<std::int64_t> extents;  ///< of the tensor
  std::vector<std::int64_t>
      strides;  ///< elements; of an operand's dense array where none were given
  std::vector<std::size_t> operand_dimension;  ///< which of the operand's each of them is part of

  /// The strides of the operand's own dimensions, where those of the tensor follow one another within
  /// each of them.
  std::optional<std::vector<std::int64_t>> merged_strides(std::size_t operand_rank) const;
};

/// Throws Error(bad_input) naming the tensor where its extents are not the operand's, but for the number
/// of a pool's rows, or its strides are negative, too few, or lay what is written on itself.
HeldShape held_shape(const HeldTensor& tensor, const Operand& operand, const Problem& problem);

/// Elements from one entry of a dimension to the next in an array without gaps.
std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& extents);

}  // namespace gdn
