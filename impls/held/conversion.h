// Conversion: the copies between a held tensor and a dense array of its operand's own, in workspace.
#pragma once

#include <cstdint>
#include <vector>

#include "held/laid_tensor.h"
#include "interface/device.h"

namespace gdn {

class Conversion {
 public:
  /// Allocates the array. Throws Error(bad_input) where values would lose bits on the way.
  Conversion(const LaidTensor& laid, const Problem& problem, const BatchIndices& indices,
             Device& device);

  const Operand& operand() const { return *operand_; }
  /// Of the dense array: what the implementation gets.
  const ArrayPointer& pointer() const { return pointer_; }
  /// Before a call, and behind it.
  const std::vector<StridedCopy>& in() const { return in_; }
  const std::vector<StridedCopy>& out() const { return out_; }
  std::int64_t bytes() const { return read_.bytes() + written_.bytes(); }

 private:
  const Operand* operand_;
  DeviceBuffer read_;
  DeviceBuffer written_;  ///< where that is another array
  ArrayPointer pointer_;
  std::vector<StridedCopy> in_;
  std::vector<StridedCopy> out_;
};

}  // namespace gdn
