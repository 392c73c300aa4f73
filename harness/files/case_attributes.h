// A problem as attributes of an HDF5 group, and the arrays of a case as datasets: what case files and
// outputs files have in common.
#pragma once

#include <string>
#include <vector>

#include "harness/files/hdf5_group.h"
#include "interface/case.h"

namespace gdn {

inline constexpr const char* kCaseSchema = "gdn-case/1";

/// `schema`, `op`, the fields' attributes and the problem string.
void write_problem_attributes(GroupWriter& file, const Case& c);

/// The operation and the fields that the attributes say.
Problem read_problem_attributes(const GroupReader& file);

/// Throws Error(bad_input) where `file` is the one the case's inputs came from.
void require_other_file(const Case& inputs, const std::string& file);

/// A pool's rows without the padding after each; anything else as it is.
template <typename T>
std::vector<T> without_padding(const Operand& operand, const Problem& problem,
                               const std::vector<T>& values) {
  if (operand.pool.row_padding == nullptr || operand.pool.row_padding(problem) == 0) return values;
  const std::int64_t used = row_elements(operand, problem);
  std::vector<T> packed;
  packed.reserve(values.size());
  for (std::size_t row = 0; row < values.size();
       row += static_cast<std::size_t>(row_stride(operand, problem))) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row);
    packed.insert(packed.end(), begin, begin + used);
  }
  return packed;
}

/// The inverse: `padded` holds the padding, and takes the rows.
template <typename T, typename U>
void copy_into_padded(const Operand& operand, const Problem& problem, const std::vector<T>& packed,
                      std::vector<U>& padded) {
  const std::int64_t used = row_elements(operand, problem);
  const std::int64_t stride = row_stride(operand, problem);
  for (std::int64_t row = 0; row * stride < static_cast<std::int64_t>(padded.size()); ++row) {
    for (std::int64_t i = 0; i < used; ++i) {
      padded[static_cast<std::size_t>(row * stride + i)] =
          static_cast<U>(packed[static_cast<std::size_t>(row * used + i)]);
    }
  }
}

}  // namespace gdn
