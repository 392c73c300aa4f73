// Dense float32 products on the CPU: Eigen's, over blocks of columns. Not a kernel under test but
// the yardstick beside them: what the projections around the recurrence cost.
#pragma once

#include <cstdint>
#include <functional>

#include "cpu/instruction_set.h"
#include "interface/matrix_product.h"

namespace gdn::cpu {

/// What computes `product` when called; nullptr for element types other than float32.
std::function<void()> matrix_product(const MatrixProduct& product, const void* a, const void* b,
                                     void* c);

/// Columns [first, last) of C = A B.
GDN_CPU_DECLARE(void multiply_columns(const MatrixProduct& product, const float* A, const float* B,
                                      float* C, std::int64_t first, std::int64_t last))

}  // namespace gdn::cpu
