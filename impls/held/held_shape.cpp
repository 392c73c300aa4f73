#include "held/held_shape.h"

#include <algorithm>
#include <string>
#include <utility>

#include "interface/error.h"
#include "interface/strided_copy.h"

namespace gdn {
namespace {

std::string in_brackets(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) {
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return "[" + text + "]";
}

/// "[T = 12, Hk = 2, Dk = 64]".
std::string expected_shape(const Operand& operand, const Problem& problem) {
  const auto dimensions = operand.shape(problem);
  const auto sizes = extents(operand, problem);
  std::string text;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    text += (text.empty() ? "" : ", ") + std::string(dimensions[d].name);
    if (dimensions[d].cut != Cut::pool_rows) text += " = " + std::to_string(sizes[d]);
  }
  return "[" + text + "]";
}

/// For each of the tensor's dimensions the operand's; empty where they do not multiply to those.
std::vector<std::size_t> matched(const std::vector<std::int64_t>& held,
                                 const std::vector<std::int64_t>& own, bool any_rows) {
  std::vector<std::size_t> result;
  std::size_t at = 0;
  for (std::size_t d = 0; d < own.size(); ++d) {
    if (at == held.size()) return {};
    std::int64_t product = held[at++];
    result.push_back(d);
    if (d == 0 && any_rows) continue;
    const auto left_over = [&] { return held.size() - at > own.size() - d - 1; };
    while (at < held.size() && left_over() && (product != own[d] || held[at] == 1)) {
      product *= held[at++];
      result.push_back(d);
    }
    if (product != own[d]) return {};
  }
  return at == held.size() ? result : std::vector<std::size_t>{};
}

void require_apart(const std::string& name, const HeldShape& shape) {
  // Dimensions from the closest elements to the farthest: each begins behind what the closer ones span.
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;
  for (std::size_t d = 0; d < shape.extents.size(); ++d) {
    if (shape.extents[d] == 0) return;
    if (shape.extents[d] > 1) dimensions.emplace_back(shape.strides[d], shape.extents[d]);
  }
  std::sort(dimensions.begin(), dimensions.end());
  std::int64_t span = 1;
  for (const auto& [stride, extent] : dimensions) {
    if (stride < span) {
      throw_bad_input(name + ": is written, but its strides " + in_brackets(shape.strides) +
                      " lay several of its elements on one place");
    }
    span += stride * (extent - 1);
  }
}

}  // namespace

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  for (std::size_t d = extents.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * std::max<std::int64_t>(extents[d], 1);
  }
  return strides;
}

std::optional<std::vector<std::int64_t>> HeldShape::merged_strides(std::size_t operand_rank) const {
  std::vector<std::int64_t> result(operand_rank, 0);
  std::vector<std::int64_t> spanned(operand_rank, 1);  // entries that the dimensions seen count
  for (std::size_t d = extents.size(); d-- > 0;) {
    const std::size_t own = operand_dimension[d];
    if (extents[d] == 1) continue;
    if (spanned[own] == 1) {
      result[own] = strides[d];
    } else if (strides[d] != result[own] * spanned[own]) {
      return std::nullopt;
    }
    spanned[own] *= extents[d];
  }
  return result;
}

HeldShape held_shape(const HeldTensor& tensor, const Operand& operand, const Problem& problem) {
  const bool is_pool = cut_of(operand, problem) == Cut::pool_rows;
  const std::vector<std::int64_t> own = extents(operand, problem);
  HeldShape shape;
  shape.extents = tensor.extents.empty() ? own : tensor.extents;
  shape.operand_dimension = matched(shape.extents, own, is_pool && !tensor.extents.empty());
  if (shape.operand_dimension.empty() && !own.empty()) {
    throw_bad_input(tensor.operand + ": shape " + in_brackets(tensor.extents) + ", expected " +
                    expected_shape(operand, problem) +
                    (is_pool ? "" : " or dimensions that multiply to these"));
  }
  shape.strides = tensor.strides;
  if (shape.strides.empty()) {
    shape.strides = dense_strides(shape.extents);
    if (is_pool) shape.strides.front() = row_stride(operand, problem);
  }
  if (shape.extents.size() > StridedCopy::kMaxRank) {
    throw_bad_input(tensor.operand + ": " + std::to_string(shape.extents.size()) +
                    " dimensions, expected at most " + std::to_string(StridedCopy::kMaxRank));
  }
  if (shape.strides.size() != shape.extents.size()) {
    throw_bad_input(tensor.operand + ": " + std::to_string(shape.strides.size()) +
                    " strides, expected one for each of its " +
                    std::to_string(shape.extents.size()) + " dimensions");
  }
  for (const std::int64_t stride : shape.strides) {
    if (stride < 0) {
      throw_bad_input(tensor.operand + ": strides " + in_brackets(shape.strides) +
                      ", expected none below 0");
    }
  }
  if (tensor.written != nullptr) require_apart(tensor.operand, shape);
  return shape;
}

}  // namespace gdn
