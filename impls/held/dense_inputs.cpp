#include "held/dense_inputs.h"

namespace gdn {

DenseInputs::DenseInputs(const Problem& problem, const std::vector<HeldTensor>& tensors,
                         Device& device) {
  std::vector<HeldTensor> inputs = tensors;
  for (HeldTensor& input : inputs) input.written = nullptr;
  std::vector<LaidTensor> all;
  for (const HeldTensor& input : inputs) {
    if (present_operand(input, problem) != nullptr) {
      all.push_back(lay(input, problem));
    } else {  // the reader says what is wrong
      arguments_.set(input.operand, {input.read, nullptr, 0});
    }
  }
  const BatchIndices indices = batch_indices(all, problem);
  std::vector<StridedCopy> copies;
  for (const LaidTensor& laid : all) {
    if (laid.tensor->read == nullptr) continue;
    if (const auto pointer = as_dense_pointer(laid, problem)) {
      arguments_.set(laid.operand->name, *pointer);
      continue;
    }
    conversions_.emplace_back(laid, problem, indices, device);
    const Conversion& made = conversions_.back();
    copies.insert(copies.end(), made.in().begin(), made.in().end());
    arguments_.set(laid.operand->name, made.pointer());
  }
  device.enqueue_copies(copies, device.native_stream());
}

}  // namespace gdn
