#include "held/laid_tensor.h"

#include <limits>
#include <span>

#include "interface/error.h"
#include "interface/operations/batch_operands.h"

namespace gdn {
namespace {

bool is_dense(const std::vector<std::int64_t>& extents, const std::vector<std::int64_t>& strides,
              std::size_t first_dimension) {
  const auto dense = dense_strides(extents);
  for (std::size_t d = first_dimension; d < extents.size(); ++d) {
    if (extents[d] > 1 && strides[d] != dense[d]) return false;
  }
  return true;
}

/// The stride that dimensions have together: from each entry to the next, over all of them.
std::optional<std::int64_t> common_stride(std::span<const std::int64_t> extents,
                                          std::span<const std::int64_t> strides) {
  std::int64_t entries = 1, stride = 1;
  for (std::size_t d = extents.size(); d-- > 0;) {
    if (extents[d] == 1) continue;
    if (entries == 1) {
      stride = strides[d];
    } else if (strides[d] != entries * stride) {
      return std::nullopt;
    }
    entries *= extents[d];
  }
  return stride;
}

/// From each index of all to the next.
std::optional<std::int64_t> index_stride(const LaidTensor& laid, const Problem& problem) {
  const auto own = extents(*laid.operand, problem);
  const auto merged = laid.shape.merged_strides(own.size());
  return merged ? common_stride(own, *merged) : std::nullopt;
}

/// None where the values of a token, or all of what has no tokens, are not equally far apart.
std::optional<HeldForm> form_of(const LaidTensor& laid, const Problem& problem) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  if (laid.operand->is_index()) {
    const auto stride = index_stride(laid, problem);
    // Indices are counted in words of four bytes.
    if (!stride || *stride > kLargest / 2) return std::nullopt;
    return HeldForm{laid.type, *stride, 1};
  }
  const auto own = extents(*laid.operand, problem);
  const auto merged = laid.shape.merged_strides(own.size());
  if (!merged) return std::nullopt;
  const std::span<const std::int64_t> all_extents(own), all_strides(*merged);
  const bool is_list = cut_of(*laid.operand, problem) == Cut::tokens;
  const std::size_t outer = is_list ? 1 : 0;
  const auto inner = common_stride(all_extents.subspan(outer), all_strides.subspan(outer));
  HeldForm form{laid.type, is_list ? merged->front() : 0, 1};
  if (!inner || *inner > kLargest) return std::nullopt;
  form.inner_stride = static_cast<std::int32_t>(*inner);
  if (form.stride > kLargest / 2) return std::nullopt;
  return form;
}

/// None where the channels are not equally far apart, or the tokens neither side by side nor in rows of such
/// that are.
std::optional<TokenRows> rows_of(const LaidTensor& laid) {
  std::vector<std::int64_t> channel_extents, channel_strides, outer_extents, outer_strides;
  TokenRows rows{0, 1, 0};
  bool is_side_by_side = true;  // from the last dimension on
  for (std::size_t d = laid.shape.extents.size(); d-- > 0;) {
    const std::int64_t extent = laid.shape.extents[d], stride = laid.shape.strides[d];
    if (extent == 1) continue;
    const bool is_channel = laid.shape.operand_dimension[d] == 0;
    is_side_by_side = is_side_by_side && (is_channel || stride == rows.length);
    auto& extents = is_channel ? channel_extents : outer_extents;
    auto& strides = is_channel ? channel_strides : outer_strides;
    if (!is_channel && is_side_by_side) {
      rows.length *= extent;
    } else {
      extents.insert(extents.begin(), extent);
      strides.insert(strides.begin(), stride);
    }
  }
  const auto channel = common_stride(channel_extents, channel_strides);
  const auto row = common_stride(outer_extents, outer_strides);
  if (!channel || !row) return std::nullopt;
  rows.channel_stride = *channel;
  rows.row_stride = *row;
  return rows;
}

}  // namespace

const Operand* present_operand(const HeldTensor& tensor, const Problem& problem) {
  const Operand* const operand = problem.operation->find(tensor.operand);
  return operand != nullptr && is_present(*operand, problem) ? operand : nullptr;
}

LaidTensor lay(const HeldTensor& tensor, const Problem& problem) {
  LaidTensor laid;
  laid.tensor = &tensor;
  laid.operand = &problem.operation->at(tensor.operand);
  laid.own = own_type(*laid.operand, problem);
  laid.type = tensor.type.value_or(laid.own);
  laid.shape = held_shape(tensor, *laid.operand, problem);
  for (const void* pointer : {tensor.read, static_cast<const void*>(tensor.written)}) {
    if (reinterpret_cast<std::uintptr_t>(pointer) %
            static_cast<std::uintptr_t>(size_of(laid.type)) !=
        0) {
      throw_bad_input(tensor.operand + ": pointer is not aligned to its element of " +
                      std::to_string(size_of(laid.type)) + " bytes");
    }
  }
  return laid;
}

std::optional<ArrayPointer> as_dense_pointer(const LaidTensor& laid, const Problem& problem) {
  if (laid.type != laid.own) return std::nullopt;
  const Operand& operand = *laid.operand;
  const auto own = extents(operand, problem);
  const auto strides = laid.shape.merged_strides(own.size());
  if (!strides) return std::nullopt;
  const ArrayPointer pointer = {laid.tensor->read, laid.tensor->written, 0};
  if (element_count(operand, problem) == 0) return pointer;
  const Cut cut = cut_of(operand, problem);
  if (cut == Cut::pool_rows) {
    const bool rows_fit = own[0] == 1 || (*strides)[0] == row_stride(operand, problem);
    return rows_fit && is_dense(own, *strides, 1) ? std::optional(pointer) : std::nullopt;
  }
  if (is_dense(own, *strides, 0)) return pointer;
  if (cut != Cut::tokens || !takes_token_stride(operand, problem) || !is_dense(own, *strides, 1) ||
      (*strides)[0] < elements_per_token(operand, problem)) {
    return std::nullopt;
  }
  return ArrayPointer{laid.tensor->read, laid.tensor->written, (*strides)[0]};
}

std::optional<ArrayPointer> as_pointer(const LaidTensor& laid, const Problem& problem,
                                       const Description& takes) {
  if (const auto dense = as_dense_pointer(laid, problem)) return dense;
  const Operand& operand = *laid.operand;
  if (takes.tokens_in_rows && operand.may_have_rows && laid.type == laid.own &&
      tokens_are_fastest(operand, problem)) {
    const auto rows = rows_of(laid);
    if (!rows) return std::nullopt;
    return ArrayPointer{laid.tensor->read, laid.tensor->written, 0, {}, rows};
  }
  const bool is_number = takes.gates_in_any_form && operand.may_have_form && dtype_of(laid.type) &&
                         !is_integer(laid.type);
  if (operand.is_index() ? !is_index_type(laid.type) : !is_number) return std::nullopt;
  const auto form = form_of(laid, problem);
  if (!form) return std::nullopt;
  return ArrayPointer{laid.tensor->read, laid.tensor->written, 0, form};
}

std::string words_of(const LaidTensor& laid) {
  std::string words = laid.operand->name + ": ";
  if (laid.type != laid.own) return words + short_name(laid.type);
  std::string strides;
  for (const std::int64_t stride : laid.shape.strides) {
    strides += (strides.empty() ? "" : ", ") + std::to_string(stride);
  }
  return words + "strides [" + strides + "]";
}

BatchIndices batch_indices(const std::vector<LaidTensor>& all, const Problem& problem) {
  BatchIndices result;
  for (const LaidTensor& laid : all) {
    if (!laid.operand->is_index()) continue;
    const std::string& name = laid.operand->name;
    const auto found = index_stride(laid, problem);
    if (!found) throw_bad_input(name + ": its entries are not equally far apart");
    const std::int64_t stride = *found;
    if (name == "slot_index") {
      result.rows = index_array(laid.tensor->read, laid.type, stride);
    } else if (name == kOutputSlotIndex) {
      result.output_rows = index_array(laid.tensor->read, laid.type, stride);
    } else if (name == "sequence_offsets" && laid.tensor->read != nullptr) {
      const auto* first = static_cast<const char*>(laid.tensor->read);
      result.tokens =
          index_array(first + problem.num_sequences() * stride * size_of(laid.type), laid.type, 1);
    }
  }
  return result;
}

}  // namespace gdn
