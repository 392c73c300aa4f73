// A held tensor laid against its operand: what it is there, whether an implementation can take it as it is,
// and what of it every conversion of a call needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "held/held_shape.h"
#include "interface/arguments.h"
#include "interface/implementation.h"
#include "interface/strided_copy.h"

namespace gdn {

/// The operand that the tensor stands for; null where the problem has none of its name.
const Operand* present_operand(const HeldTensor& tensor, const Problem& problem);

struct LaidTensor {
  const HeldTensor* tensor = nullptr;
  const Operand* operand = nullptr;
  StorageType type = StorageType::float32;
  StorageType own = StorageType::float32;  ///< the operand's
  HeldShape shape;
};

/// Throws what held_shape() does, and Error(bad_input) for an operand that there is not or a pointer that
/// is not aligned to its element.
LaidTensor lay(const HeldTensor& tensor, const Problem& problem);

/// The tensor's pointers as every implementation takes them: dense in the operand's own type, or with a
/// token stride or a gap behind a pool's rows where the operand takes one. None for any other tensor.
std::optional<ArrayPointer> as_dense_pointer(const LaidTensor& laid, const Problem& problem);
/// The same, or as the implementation takes it beside: indices in any form (HeldForm), gates likewise, and
/// tokens in rows.
std::optional<ArrayPointer> as_pointer(const LaidTensor& laid, const Problem& problem,
                                       const Description& takes);

/// "v: f32", "qkv: strides [1, 128]": why as_pointer() has none.
std::string words_of(const LaidTensor& laid);

/// What is read of the indices of a batch while its tensors are copied.
struct BatchIndices {
  IndexArray tokens;       ///< one entry: the tokens of all sequences
  IndexArray rows;         ///< of pools; none: sequence n has row n
  IndexArray output_rows;  ///< that are written; none: those that are read
};
/// Throws Error(bad_input) where the entries of an index tensor are not equally far apart.
BatchIndices batch_indices(const std::vector<LaidTensor>& tensors, const Problem& problem);

}  // namespace gdn
