// Pieces of the CUDA chunkwise kernels run on their own, for their tests: host arrays in and out.
#pragma once

#include <vector>

namespace gdn::test {

/// T = L^-1 of a unit lower triangular C x C matrix, row-major, C in {16, 32, 64, 128}, by the
/// device code of cuda/chunkwise and cuda/fused. The strict upper part of L is not read; that of T
/// is NaN.
std::vector<float> invert_unit_lower_on_cuda(const std::vector<float>& L, int C);

/// Sums [16, 16] of rows of A [16, 16 n] with rows of B [16, 16 n]: A B^T, by the blocks of 16 x 16
/// that all chunkwise products are made of. B is loaded transposed from its transpose when
/// `transposed`.
std::vector<float> multiply_blocks_on_cuda(const std::vector<float>& A, const std::vector<float>& B,
                                           bool transposed);

}  // namespace gdn::test
