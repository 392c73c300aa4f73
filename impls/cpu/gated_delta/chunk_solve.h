// The unit lower triangular solves of the chunkwise forms. For kernel files only: Eigen's types are
// renamed per instruction set (cpu/instruction_set.h), and with them what this template makes.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

namespace gdn::cpu {

using RowMajorMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Rows solved by substitution between two matrix products.
inline constexpr std::int64_t kSolveBlock = 16;

/// X <- L^-1 X for a unit lower triangular L [n, n] (its diagonal and upper part are not read) and
/// X [n, Dv]: blocks of rows by substitution, and a product that takes each solved block out of all
/// rows below. Map: a map of RowMajorMatrix.
template <typename Map>
void solve_unit_lower(const Map& L, Map& X) {
  const std::int64_t n = L.rows();
  for (std::int64_t first = 0; first < n; first += kSolveBlock) {
    const std::int64_t last = first + kSolveBlock < n ? first + kSolveBlock : n;
    if (first > 0) {
      X.middleRows(first, last - first).noalias() -=
          L.block(first, 0, last - first, first) * X.topRows(first);
    }
    for (std::int64_t i = first + 1; i < last; ++i) {
      for (std::int64_t j = first; j < i; ++j) X.row(i) -= L(i, j) * X.row(j);
    }
  }
}

/// X <- L^-T X, with as much of L read: the same from the last rows to the first.
template <typename Map>
void solve_unit_lower_transposed(const Map& L, Map& X) {
  const std::int64_t n = L.rows();
  for (std::int64_t first = (n - 1) / kSolveBlock * kSolveBlock; first >= 0; first -= kSolveBlock) {
    const std::int64_t last = first + kSolveBlock < n ? first + kSolveBlock : n;
    if (last < n) {
      X.middleRows(first, last - first).noalias() -=
          L.block(last, first, n - last, last - first).transpose() * X.bottomRows(n - last);
    }
    for (std::int64_t i = last - 2; i >= first; --i) {
      for (std::int64_t j = i + 1; j < last; ++j) X.row(i) -= L(j, i) * X.row(j);
    }
  }
}

}  // namespace gdn::cpu
