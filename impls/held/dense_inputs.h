// The inputs of held tensors in dense arrays of their operands' own types, for who reads them once: the
// reference.
#pragma once

#include <vector>

#include "held/conversion.h"

namespace gdn {

class DenseInputs {
 public:
  /// Enqueues the copies that are needed on the device's stream. What tensors write is left out.
  DenseInputs(const Problem& problem, const std::vector<HeldTensor>& tensors, Device& device);
  /// Valid as long as this and the tensors are.
  const Arguments& arguments() const { return arguments_; }

 private:
  std::vector<Conversion> conversions_;
  Arguments arguments_;
};

}  // namespace gdn
