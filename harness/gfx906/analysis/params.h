// Argument blocks of the analysis kernels, shared by host and device code.
#pragma once

#include <cstdint>

namespace gdn::hip {

/// calibration.hip: `rounds` times a fixed body; results go to sink so that nothing is dropped.
struct CalibrationParams {
  float* sink;          ///< one float per work-item
  const float* source;  ///< what it reads
  float* destination;   ///< what it writes
  std::int64_t elements;
  std::int32_t rounds;
  std::int32_t reserved;
};
constexpr int kBodyOperations = 64;  ///< operations under test per work-item and round

/// solve.hip: X = L^-1 for unit lower triangular 64 x 64 matrices, one per workgroup.
struct SolveParams {
  const float* lower;  ///< [systems, 64, 64]
  float* inverse;      ///< [systems, 64, 64]
};

/// state_placement.hip: for each chunk of 64 rows, P = W S, then S <- S + K^T P; one head per
/// workgroup, Dk = Dv = 128.
struct StateParams {
  const float* carried;  ///< W: [heads, chunks, 64, 128]
  const float* key;      ///< K: the same
  float* state;          ///< S: [heads, 128, 128]
  float* product;        ///< P: [heads, 64, 128], for the kernel that has no other place for it
  std::int32_t chunks;
  std::int32_t reserved;
};

}  // namespace gdn::hip
