// The triangular solves of the CPU's chunkwise forms on their own: the inverse each amounts to, by its
// normalised residual (LAPACK's ratio) over systems that cancel, grow or hold resets.
#include "cpu/gated_delta/chunk_solve.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace gdn {
namespace {

using Matrix = cpu::RowMajorMatrix;
using Map = Eigen::Map<Matrix>;

// L = I + strict_lower(beta <k_i, k_j>).
Matrix from_keys(int C, double beta, const std::function<double(int, int)>& inner_product) {
  Matrix L = Matrix::Identity(C, C);
  for (int i = 0; i < C; ++i) {
    for (int j = 0; j < i; ++j) L(i, j) = static_cast<float>(beta * inner_product(i, j));
  }
  return L;
}

using Solve = void (*)(const Map&, Map&);

Matrix solved(Matrix L, Solve solve) {
  Matrix T = Matrix::Identity(L.rows(), L.cols());
  const Map system(L.data(), L.rows(), L.cols());
  Map solution(T.data(), T.rows(), T.cols());
  solve(system, solution);
  return T;
}
Matrix inverse_of(const Matrix& L) { return solved(L, cpu::solve_unit_lower<Map>); }
Matrix inverse_of_transpose(const Matrix& L) {
  return solved(L, cpu::solve_unit_lower_transposed<Map>);
}

// ||L T - I|| / (C eps ||L|| ||T||), each norm the largest absolute row sum; NaN when T holds one.
double normalised_residual(const Matrix& L, const Matrix& T) {
  const Eigen::MatrixXd l = L.cast<double>(), t = T.cast<double>();
  const auto norm = [](const Eigen::MatrixXd& m) {
    return m.cwiseAbs().rowwise().sum().maxCoeff();
  };
  const Eigen::MatrixXd residual = l * t - Eigen::MatrixXd::Identity(l.rows(), l.cols());
  if (residual.hasNaN()) return std::nan("");
  return norm(residual) / (static_cast<double>(l.rows()) * 0x1p-24 * norm(l) * norm(t));
}

TEST(ChunkSolve, TheInverseHasAResidualOfRounding) {
  std::mt19937 generator(7);
  std::normal_distribution<double> normal;
  for (const int C : {1, 15, 16, 17, 32, 64, 100, 128, 256}) {
    std::vector<std::pair<std::string, Matrix>> systems;
    for (const double beta : {1.0, 2.0}) {
      const std::string of = ", beta=" + std::to_string(beta);
      systems.emplace_back("equal keys" + of, from_keys(C, beta, [](int, int) { return 1.0; }));
      systems.emplace_back("alternating keys" + of, from_keys(C, beta, [](int i, int j) {
                             return (i - j) % 2 == 0 ? 1.0 : -1.0;
                           }));
      systems.emplace_back("correlated keys" + of, from_keys(C, beta, [&](int, int) {
                             return 0.9 + 0.05 * normal(generator);
                           }));
    }
    systems.emplace_back("near-equal keys, weak decay", from_keys(C, 0.835, [](int i, int j) {
                           return 0.98 * std::exp(-1e-3 * (i - j));
                         }));
    systems.emplace_back("random keys",
                         from_keys(C, 1, [&](int, int) { return normal(generator) / 11.3; }));
    systems.emplace_back("growing inverse",
                         from_keys(C, 1, [&](int, int) { return 0.5 * normal(generator); }));
    for (const auto& [name, L] : systems) {
      const double residual = normalised_residual(L, inverse_of(L));
      EXPECT_TRUE(residual <= 1) << name << ", C=" << C << ": residual " << residual;
      const double transposed = normalised_residual(L.transpose(), inverse_of_transpose(L));
      EXPECT_TRUE(transposed <= 1) << name << ", C=" << C << ": transposed, " << transposed;
    }
  }
}

TEST(ChunkSolve, AResetLeavesExactZerosInTheInverse) {
  // tokens from 40 on do not see earlier ones
  const Matrix L =
      from_keys(64, 1, [](int i, int j) { return (i >= 40) == (j >= 40) ? 0.5 : 0.0; });
  const Matrix T = inverse_of(L);
  const Matrix transposed = inverse_of_transpose(L);
  for (int i = 40; i < 64; ++i) {
    for (int j = 0; j < 40; ++j) {
      EXPECT_EQ(T(i, j), 0.0f) << i << ", " << j;
      EXPECT_EQ(transposed(j, i), 0.0f) << i << ", " << j;
    }
  }
}

// What lies on and above the diagonal is not part of the system.
TEST(ChunkSolve, ReadsTheStrictlyLowerPartAlone) {
  Matrix L = from_keys(33, 1, [](int i, int j) { return 0.3 + 0.01 * i - 0.02 * j; });
  const Matrix expected = inverse_of(L), transposed = inverse_of_transpose(L);
  for (int i = 0; i < 33; ++i) {
    for (int j = i; j < 33; ++j) L(i, j) = std::nanf("");
  }
  EXPECT_EQ(inverse_of(L), expected);
  EXPECT_EQ(inverse_of_transpose(L), transposed);
}

}  // namespace
}  // namespace gdn
