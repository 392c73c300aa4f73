#include <Eigen/Core>

#include "cpu/matrix_product.h"

namespace gdn::cpu::GDN_ISA {

void multiply_columns(const MatrixProduct& product, const float* A, const float* B, float* C,
                      std::int64_t first, std::int64_t last) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> a(A, product.rows, product.inner);
  const Eigen::Map<const Matrix> b(B, product.inner, product.columns);
  Eigen::Map<Matrix> c(C, product.rows, product.columns);
  c.middleCols(first, last - first).noalias() = a * b.middleCols(first, last - first);
}

}  // namespace gdn::cpu::GDN_ISA
