#include <Eigen/Core>

#include "cpu/ceilings.h"

namespace gdn::cpu::GDN_ISA {

void multiply_add_square(const float* A, const float* B, float* C, std::int64_t size) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::Map<const Matrix> a(A, size, size), b(B, size, size);
  Eigen::Map<Matrix> c(C, size, size);
  c.noalias() += a * b;
}

}  // namespace gdn::cpu::GDN_ISA
