#include "held/conversion.h"

#include <string>

#include "interface/error.h"

namespace gdn {
namespace {

bool is_by_tokens(const LaidTensor& laid, const Problem& problem) {
  return cut_of(*laid.operand, problem) == Cut::tokens;
}

bool is_pool(const LaidTensor& laid, const Problem& problem) {
  return cut_of(*laid.operand, problem) == Cut::pool_rows;
}

void require_no_loss(const LaidTensor& laid, const Problem& problem) {
  const std::string name = laid.operand->name + ": " + short_name(laid.type);
  if (is_integer(laid.type) != is_integer(laid.own)) {
    throw_bad_input(name + ", expected " + short_name(laid.own));
  }
  // What is written token by token is rounded once more; all else comes back where it is not written.
  const bool comes_back = laid.tensor->read != nullptr || !is_by_tokens(laid, problem);
  if (comes_back && !holds_all_of(laid.own, laid.type)) {
    throw_bad_input(name + " would lose bits, the problem has " + short_name(laid.own) +
                    " there; expected " + short_name(laid.own) +
                    " or a type whose values it holds");
  }
}

enum class Direction { to_own, to_tensor };

/// Only of the sequences' rows of a pool, and only into the tokens that the batch has.
void restrict_to_batch(StridedCopy& copy, const LaidTensor& laid, const Problem& problem,
                       const BatchIndices& indices, const IndexArray& rows, Direction direction) {
  if (is_pool(laid, problem)) {
    copy.extents[0] = problem.num_sequences();
    copy.rows = rows;
  }
  if (!is_by_tokens(laid, problem) || direction == Direction::to_own) return;
  const auto dimensions = laid.operand->shape(problem);
  const auto is_token = [&](int d) {
    return d < copy.rank &&
           dimensions[laid.shape.operand_dimension[static_cast<std::size_t>(d)]].cut == Cut::tokens;
  };
  copy.bound = indices.tokens;
  while (!is_token(copy.bounded_begin)) ++copy.bounded_begin;
  copy.bounded_end = copy.bounded_begin;
  while (is_token(copy.bounded_end)) ++copy.bounded_end;
}

StridedCopy copy_of(const LaidTensor& laid, const Problem& problem, const BatchIndices& indices,
                    const IndexArray& rows, const void* from, void* to, Direction direction) {
  const HeldShape& shape = laid.shape;
  const bool to_own = direction == Direction::to_own;
  // The dense array's strides, by the tensor's dimensions.
  auto own = dense_strides(shape.extents);
  if (is_pool(laid, problem)) own.front() = row_stride(*laid.operand, problem);
  StridedCopy copy;
  copy.from = from;
  copy.to = to;
  copy.from_type = to_own ? laid.type : laid.own;
  copy.to_type = to_own ? laid.own : laid.type;
  copy.rank = static_cast<int>(shape.extents.size());
  for (std::size_t d = 0; d < shape.extents.size(); ++d) {
    copy.extents[d] = shape.extents[d];
    copy.from_strides[d] = to_own ? shape.strides[d] : own[d];
    copy.to_strides[d] = to_own ? own[d] : shape.strides[d];
  }
  restrict_to_batch(copy, laid, problem, indices, rows, direction);
  return copy;
}

}  // namespace

Conversion::Conversion(const LaidTensor& laid, const Problem& problem, const BatchIndices& indices,
                       Device& device)
    : operand_(laid.operand) {
  require_no_loss(laid, problem);
  const HeldTensor& tensor = *laid.tensor;
  const std::int64_t bytes =
      static_cast<std::int64_t>(element_count(*laid.operand, problem)) * size_of(laid.own);
  const IndexArray& written_rows = indices.output_rows ? indices.output_rows : indices.rows;
  const auto copy_in = [&](const IndexArray& rows, const void* from, void* to) {
    in_.push_back(copy_of(laid, problem, indices, rows, from, to, Direction::to_own));
  };
  if (tensor.read != nullptr) {
    read_ = device.allocate(bytes);
    pointer_.read = read_.data();
    copy_in(indices.rows, tensor.read, read_.data());
  }
  if (tensor.written == nullptr) return;
  pointer_.written = read_.data();
  const bool apart = tensor.written != tensor.read;
  if (apart) {
    written_ = device.allocate(bytes);
    pointer_.written = written_.data();
  }
  // What the call leaves as it was has to come back as it was.
  if (!is_by_tokens(laid, problem) && (apart || (is_pool(laid, problem) && indices.output_rows)))
    copy_in(written_rows, tensor.written, pointer_.written);
  out_.push_back(copy_of(laid, problem, indices, written_rows, pointer_.written, tensor.written,
                         Direction::to_tensor));
}

}  // namespace gdn
