// What kernels of gated_delta_ring take beside what those of gated_delta do.
#pragma once

#include <cstdint>

#include "cuda/gated_delta/tile/launch.cuh"
#include "cuda/target.h"
#include "interface/index_array.h"

namespace gdn::GDN_CUDA_TARGET {

/// Strides in elements of each array.
struct RingParams {
  IndexArray first;                 ///< [N]
  IndexArray length;                ///< [N]
  IndexArray fold;                  ///< [N]
  void* key = nullptr;              ///< rows of [ring, Hk, Dk], token dtype
  void* update = nullptr;           ///< rows of [ring, Hv, Dv], ring_update_dtype()
  float* decay = nullptr;           ///< rows of [ring, Hv]
  std::int64_t key_row_stride = 0;  ///< from one row of the pool to the next
  std::int64_t update_row_stride = 0;
  std::int64_t decay_row_stride = 0;
  std::int32_t places = 0;  ///< of a row
};

#ifdef __CUDACC__
/// ring_folds() of the sequence: a row that is not read is written, so that the next call finds a state.
__device__ __forceinline__ bool ring_folds(const StatePool& pool, const RingParams& ring,
                                           std::int64_t sequence) {
  return pool.write && (!pool.read || ring.fold[sequence] != 0);
}
#endif

struct RingOptions {
  TileGrid grid;
  int block_values;
  RingParams ring;
};

}  // namespace gdn::GDN_CUDA_TARGET
